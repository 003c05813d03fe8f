"""pytest plugin: a real cluster, a topic of its own for each test, and clients, as fixtures.

    def test_a_record_comes_back(kafkalite_topic, kafkalite_producer, kafkalite_consumer):
        kafkalite_producer.send_and_wait(kafkalite_topic, b"hello")
        assert next(kafkalite_consumer).value == b"hello"

pytest finds the plugin by its entry point. It imports nothing of the product until a test asks for a fixture, so it costs other
tests nothing. Settings come from the command line, the environment or the ini-file, in this order; see `SETTINGS`.

Under pytest-xdist each worker has a cluster of its own, as with any session fixture: a test may kill a broker without harm to the
tests of other workers. A test that kills a broker starts it again, for the tests that come after it.

The report of a failing test shows the last lines of the logs of the clusters that it used.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from kafkalite import NAME

if TYPE_CHECKING:
    from kafkalite.client import NewTopic, SyncAdmin, SyncConsumer, SyncProducer
    from kafkalite.local.contract import Cluster, ShowsLogs
    from kafkalite.local.faults import Fault, Faults
    from kafkalite.local.frozen import FrozenCluster


class Setting(NamedTuple):
    """One choice of the user's: `--kafkalite-<name>`, `KAFKALITE_TEST_<NAME>` or `kafkalite_<name>` in the ini-file."""

    name: str
    default: str
    help: str

    @property
    def option(self) -> str:
        return f"--kafkalite-{self.name}"

    @property
    def variable(self) -> str:
        return f"KAFKALITE_TEST_{self.name.upper()}"

    @property
    def ini_name(self) -> str:
        return f"kafkalite_{self.name}"


MODES: Final = ("local", "docker")
SETTINGS: Final = (
    Setting(
        "mode",
        "local",
        "where kafkalite_cluster runs: local (processes; needs Java and ZooKeeper) or docker (containers)",
    ),
    Setting("brokers", "1", "how many brokers it has"),
    Setting("zookeepers", "1", "how many ZooKeeper servers it has: 1, 3 or 5"),
    Setting("secure", "no", "yes: with TLS, users and ACLs, see kafkalite_cluster.security"),
    Setting("image", "", "the image of docker mode; without it $KAFKALITE_IMAGE, or that of this version of kafkalite"),
)
PROPERTIES: Final = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
"""What brokers for small tests do otherwise than Kafka: the first group does not wait for fifty partitions to be made."""

_LONGEST_TOPIC_PREFIX: Final = 200
_TOPIC_MARKER: Final = (
    "kafkalite_topic(partitions=1, replication_factor=None, config=None): of the topic that the fixture kafkalite_topic makes; "
    "it has a replica on up to three brokers unless told otherwise"
)
_FAULTS_MARKER: Final = (
    "kafkalite_faults(how, api, ..., required=True): a fault that begins with the test's own code, as the method `how` of the fixture "
    'kafkalite_faults has it: fail, delay or drop; topic="kafkalite_topic" stands for the topic of that fixture. A test that passes '
    "without that it struck fails, unless it is not required"
)
_API_TIMEOUT_MS: Final = 20_000
_CLOSE_TIMEOUT_S: Final = 10.0
_session_cluster: Final = pytest.StashKey["Cluster"]()


class Chosen(NamedTuple):
    """The settings of this run."""

    mode: str
    brokers: int
    zookeepers: int
    image: str | None
    secure: bool = False


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup(NAME, "a cluster for tests")
    for setting in SETTINGS:
        known = f"{setting.help}; default: {setting.default}" if setting.default else setting.help
        metavar = "|".join(MODES) if setting.name == "mode" else setting.name.upper()
        group.addoption(setting.option, metavar=metavar, help=known)
        parser.addini(setting.ini_name, f"{known} ({setting.option} and ${setting.variable} win)", default="")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _TOPIC_MARKER)
    config.addinivalue_line("markers", _FAULTS_MARKER)


def pytest_itemcollected(item: pytest.Item) -> None:
    names = getattr(item, "fixturenames", None)
    if names is not None and item.get_closest_marker("kafkalite_faults") and "kafkalite_faults" not in names:
        names.append("kafkalite_faults")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    """Run the test with the faults of its markers; what its fixtures did went undisturbed."""
    markers = list(item.iter_markers("kafkalite_faults"))
    required = [each for each in map(partial(_add_fault, item), reversed(markers)) if each is not None]
    outcome = yield
    if outcome.excinfo is None and (idle := [told for told, fault in required if not _has_struck(fault)]):
        outcome.force_exception(pytest.fail.Exception(f"no request met the fault {', '.join(idle)}", pytrace=False))


def _add_fault(item: pytest.Item, marker: pytest.Mark) -> tuple[str, Fault] | None:
    """Add the fault of a marker; return how it was written, and the fault, or None for one that need not strike."""
    arguments: dict[str, Any] = getattr(item, "funcargs", {})
    which = dict(marker.kwargs)
    is_required = which.pop("required", True)
    told = ", ".join([*map(repr, marker.args), *(f"{name}={each!r}" for name, each in which.items())])
    if which.get("topic") == "kafkalite_topic":
        which["topic"] = arguments.get("kafkalite_topic")
    try:
        how, *words = marker.args
        if how not in ("fail", "delay", "drop"):
            raise ValueError(f"there is no {how!r}; there are fail, delay and drop")
        fault: Fault = getattr(arguments["kafkalite_faults"], how)(*words, **which)
    except (TypeError, ValueError, KeyError) as problem:
        message = f"kafkalite_faults: the marker ({told}) of {item.name} cannot be read: {problem}"
        raise pytest.fail.Exception(message, pytrace=False) from None
    return (told, fault) if is_required else None


def _has_struck(fault: Fault) -> bool:
    """True if a request met the fault, or if that cannot be known, because the test has killed the broker."""
    try:
        return fault.hits > 0
    except (OSError, KeyError):
        return True


# The older kind of wrapper: whoever has kafkalite and pytest 7 in one environment must not be hindered.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    # Nobody has a cluster who has not loaded this module.
    if report.failed and (module := sys.modules.get("kafkalite.local.contract")) is not None:
        shared = item.config.stash.get(_session_cluster, None)
        uses_shared = "kafkalite_cluster" in getattr(item, "fixturenames", ())
        for cluster in list(module.LIVE_CLUSTERS):
            if cluster is not shared or uses_shared:
                report.sections.extend(_logs_of(cluster).items())


def _logs_of(cluster: ShowsLogs) -> dict[str, str]:
    """Return the logs of a cluster. Reports are written whatever has become of it."""
    try:
        return cluster.logs()
    except Exception as problem:
        return {NAME: f"a cluster has no logs to show: {problem!r}"}


def read_settings(config: pytest.Config, environment: Mapping[str, str] = os.environ) -> Chosen:
    """Return the settings by their order of precedence. Raises ValueError that names the place of a wrong one and what it may be."""
    texts, places = {}, {}
    for setting in SETTINGS:
        found = (
            (setting.option, config.getoption(setting.option)),
            (f"${setting.variable}", environment.get(setting.variable)),
            (f"{setting.ini_name} in {config.inipath}", config.getini(setting.ini_name)),
            ("the default", setting.default),
        )
        places[setting.name], texts[setting.name] = next((each for each in found if each[1]), found[-1])
    if texts["mode"] not in MODES:
        raise ValueError(f"{places['mode']} is {texts['mode']!r}; it may be {' or '.join(MODES)}")
    numbers = {}
    for name in ("brokers", "zookeepers"):
        if not re.fullmatch(r"[1-9]\d*", texts[name]):
            raise ValueError(f"{places[name]} is {texts[name]!r}; it must be a number from 1")
        numbers[name] = int(texts[name])
    if texts["secure"] not in ("yes", "no"):
        raise ValueError(f"{places['secure']} is {texts['secure']!r}; it may be yes or no")
    return Chosen(
        texts["mode"], numbers["brokers"], numbers["zookeepers"], texts["image"] or None, texts["secure"] == "yes"
    )


def topic_name(test_name: str) -> str:
    """Return a name that no other test has: the test's own, as far as Kafka allows it, and chance."""
    readable = re.sub(r"[^a-zA-Z0-9-]+", "-", test_name).strip("-")[:_LONGEST_TOPIC_PREFIX]
    return f"{readable or 'test'}-{secrets.token_hex(4)}"


@pytest.fixture(scope="session")
def kafkalite_properties() -> dict[str, str]:
    """Settings of every broker. A conftest.py that needs others has a session fixture of this name."""
    return {}


@pytest.fixture(scope="session")
def kafkalite_cluster(pytestconfig: pytest.Config, kafkalite_properties: Mapping[str, str]) -> Iterator[Cluster]:
    """A running cluster for the whole session: `bootstrap_servers`, `kill`, `restart` and more, alike in both modes."""
    cluster = _start("kafkalite_cluster", pytestconfig, kafkalite_properties)
    pytestconfig.stash[_session_cluster] = cluster
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def kafkalite_prepare() -> Callable[[Cluster], object]:
    """A function that fills the cluster of kafkalite_frozen; a conftest.py that needs one has a session fixture of this name."""
    return lambda cluster: None


@pytest.fixture(scope="session")
def kafkalite_frozen(
    pytestconfig: pytest.Config, kafkalite_properties: Mapping[str, str], kafkalite_prepare: Callable[[Cluster], object]
) -> Iterator[FrozenCluster]:
    """A cluster as `kafkalite_prepare` has left it, at rest: `fork` makes copies of it (local mode)."""
    from kafkalite.local.cluster import LocalCluster
    from kafkalite.local.frozen import FrozenCluster

    cluster = _start("kafkalite_frozen", pytestconfig, kafkalite_properties)
    try:
        kafkalite_prepare(cluster)
        if not isinstance(cluster, LocalCluster):
            raise pytest.fail.Exception("kafkalite_frozen: containers are not frozen; use local mode", pytrace=False)
        with FrozenCluster(cluster) as frozen:
            yield frozen
    finally:
        cluster.close()


@pytest.fixture
def kafkalite_fork(kafkalite_frozen: FrozenCluster) -> Iterator[Cluster]:
    """A running cluster for this test alone, a copy of kafkalite_frozen: whatever the test does to it, no other sees it."""
    with kafkalite_frozen.fork() as cluster:
        yield cluster


@pytest.fixture
def kafkalite_faults(kafkalite_cluster: Cluster) -> Iterator[Faults]:
    """Faults of the cluster's requests, in local mode: fail, delay or drop the n-th; they end with the test."""
    from kafkalite.local.cluster import LocalCluster

    if not isinstance(kafkalite_cluster, LocalCluster) or kafkalite_cluster.is_secure:
        told = "kafkalite_faults: brokers in containers and secured ones have none; use local mode without secure"
        raise pytest.fail.Exception(told, pytrace=False)
    yield kafkalite_cluster.faults
    kafkalite_cluster.faults.clear()


@pytest.fixture(scope="session")
def kafkalite_options(kafkalite_cluster: Cluster) -> dict[str, Any]:
    """Options of clients of kafkalite: for a secured cluster the administrator's, otherwise none."""
    cluster: Any = kafkalite_cluster  # of either kind, neither of which is imported for the other
    if not cluster.is_secure:
        return {}
    settings = cluster.security.client_settings("admin")
    return {key.replace(".", "_"): text for key, text in settings.items()}


@pytest.fixture(scope="session")
def kafkalite_admin(kafkalite_cluster: Cluster, kafkalite_options: dict[str, Any]) -> Iterator[SyncAdmin]:
    """An admin client of the cluster."""
    from kafkalite.client import SyncAdmin

    options = kafkalite_options | {"default_api_timeout_ms": _API_TIMEOUT_MS}
    with SyncAdmin(bootstrap_servers=kafkalite_cluster.bootstrap_servers, **options) as admin:
        yield admin


@pytest.fixture
def kafkalite_topic(
    request: pytest.FixtureRequest, pytestconfig: pytest.Config, kafkalite_admin: SyncAdmin
) -> Iterator[str]:
    """The name of a new topic, which is deleted after the test. `@pytest.mark.kafkalite_topic(partitions=3)` shapes it."""
    from kafkalite.client import ClientError
    from kafkalite.errors import ErrorCode

    marker = request.node.get_closest_marker("kafkalite_topic")
    wishes = marker.kwargs if marker is not None else {}
    name = topic_name(request.node.name)
    try:
        new_topic = _new_topic(name, read_settings(pytestconfig).brokers, **wishes)
    except TypeError as problem:
        told = f"kafkalite_topic: the marker of {request.node.name} cannot be read: {problem}"
        raise pytest.fail.Exception(told, pytrace=False) from None
    kafkalite_admin.create_topics([new_topic])
    _wait_until_served(kafkalite_admin, name)
    yield name
    try:
        kafkalite_admin.delete_topics([name])
    except ClientError as problem:
        if problem.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # the test may have deleted it
            raise


@pytest.fixture
def kafkalite_producer(
    kafkalite_cluster: Cluster, kafkalite_options: dict[str, Any], kafkalite_topic: str
) -> Iterator[SyncProducer]:
    """A producer with acks=all; what it has not delivered when the test ends is delivered before the topic goes."""
    from kafkalite.client import SyncProducer

    producer = SyncProducer(bootstrap_servers=kafkalite_cluster.bootstrap_servers, **kafkalite_options)
    try:
        producer.connect()
        yield producer
    finally:
        producer.close(_CLOSE_TIMEOUT_S)


@pytest.fixture
def kafkalite_consumer(
    kafkalite_cluster: Cluster, kafkalite_options: dict[str, Any], kafkalite_topic: str
) -> Iterator[SyncConsumer]:
    """A consumer that reads `kafkalite_topic` from its beginning, the only member of a new group; `subscribe` for other topics."""
    from kafkalite.client import SyncConsumer

    with SyncConsumer(
        kafkalite_topic,
        group_id=f"{kafkalite_topic}-readers",
        auto_offset_reset="earliest",
        bootstrap_servers=kafkalite_cluster.bootstrap_servers,
        **kafkalite_options,
    ) as consumer:
        yield consumer


def _new_topic(
    name: str,
    brokers: int,
    *,
    partitions: int = 1,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> NewTopic:
    from kafkalite.client import NewTopic

    return NewTopic(name, partitions, replication_factor or min(3, brokers), topic_configs=config)


def _wait_until_served(admin: SyncAdmin, topic: str) -> None:
    """Wait until every broker that is up knows who leads, so that a test may ask any of them. Raises TimeoutError."""
    from kafkalite.client import ClientError
    from kafkalite.local.broker_process import wait_until

    def served_at(broker_id: int) -> bool:
        try:
            found = admin.describe_topics_at(broker_id, [topic]).get(topic)
        except ClientError:
            return True  # it is down: nobody asks it
        return found is not None and all(partition.leader >= 0 for partition in found.partitions)

    for broker in admin.describe_cluster().brokers:
        wait_until(partial(served_at, broker.id), f"{topic} at broker {broker.id}", _API_TIMEOUT_MS / 1000)


def _start(fixture: str, config: pytest.Config, properties: Mapping[str, str]) -> Cluster:
    """Start the cluster that the settings ask for. pytest's failure, in the name of `fixture`, when that cannot be done."""
    try:
        cluster = _make_cluster(read_settings(config), PROPERTIES | dict(properties))
        cluster.start()
    except _start_problems() as problem:
        raise pytest.fail.Exception(f"{fixture}: {problem}", pytrace=False) from None
    return cluster


def _make_cluster(wanted: Chosen, properties: Mapping[str, str]) -> Cluster:
    if wanted.mode == "docker":
        from kafkalite.testing.containers import KafkaliteCluster

        return KafkaliteCluster(
            wanted.brokers, wanted.zookeepers, properties=properties, image=wanted.image, secure=wanted.secure
        )
    from kafkalite.local.cluster import LocalCluster

    return LocalCluster(
        brokers=wanted.brokers,
        zookeepers=wanted.zookeepers,
        properties=properties,
        faults=not wanted.secure,
        secure=wanted.secure,
    )


def _start_problems() -> tuple[type[Exception], ...]:
    """Return the exceptions of a start whose message says all that there is to say: a traceback would only hide the remedy."""
    from kafkalite.local.broker_process import BrokerDied
    from zk.servers.ensemble import EnsembleError
    from zk.servers.server_classes import MissingRequirementError

    problems = (BrokerDied, EnsembleError, MissingRequirementError, ImportError, OSError, TimeoutError, ValueError)
    if "docker.errors" not in sys.modules:
        return problems
    from docker.errors import DockerException

    return (*problems, DockerException)
