"""Real ZooKeeper servers with TLS among each other and to clients, and with users: who is let in, whose znodes are whose. Needs Java."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from kafkalite.zookeeper_connection import security_of_texts
from tests.certificates import PASSWORD, Authority, write
from zk import paths
from zk.kazoo_adapter.kazoo_store import KazooStore
from zk.native.native_store import NativeStore
from zk.security.digest_md5 import DigestCredentials
from zk.security.store_security import PLAINTEXT, StoreSecurity
from zk.security.znode_acls import ALL, OPEN, READ, ZnodeAcl
from zk.servers.ensemble import HOST, Ensemble
from zk.servers.server_settings import EnsembleTls
from zk.session_ending import end_session, request_session_end
from zk.store import AuthFailedError, NoAuthError, SessionEnding, SessionState, StoreError

AnyStore: TypeAlias = KazooStore | NativeStore
MakeStore: TypeAlias = Callable[..., AnyStore]

pytestmark = pytest.mark.usefixtures("java")

BROKER = DigestCredentials("kafka", 'a "quoted" secret')
WORLD_READS = ZnodeAcl(READ, "world", "anyone")


class Secured:
    """Three servers with TLS among each other, ports with TLS and without, and users."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority()
        self.truststore = write(folder / "ca.pem", self.authority.pem)
        identity = write(folder / "server.pem", self.authority.issue("zookeeper").pem)
        tls = EnsembleTls(
            identity=Path(identity),
            authorities=Path(self.truststore),
            client=ssl.create_default_context,  # not asked: there is a port without TLS
            keeps_plaintext=True,
        )
        users = {BROKER.username: BROKER.password}
        self.ensemble = Ensemble(folder / "zookeeper", 3, force_sync=False, tls=tls, users=users)

    def certificate(self, name: str, authority: Authority | None = None) -> StoreSecurity:
        """A client that shows a certificate, and trusts the servers'."""
        signer = authority or self.authority
        store = write(self.folder / f"{name}.p12", signer.pkcs12(signer.issue(name)))
        return security_of_texts(
            {
                "zookeeper.ssl.client.enable": "true",
                "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
                "zookeeper.ssl.keystore.location": store,
                "zookeeper.ssl.keystore.password": PASSWORD,
                "zookeeper.ssl.truststore.location": self.truststore,
                "zookeeper.set.acl": "true",
            },
            {},
        )


@pytest.fixture(scope="module")
def secured(java: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    asyncio.run(made.ensemble.start(60))
    yield made
    asyncio.run(made.ensemble.stop())


def with_store(
    make_store: MakeStore, connect: str, security: StoreSecurity, work: Callable[[AnyStore], Awaitable[None]]
) -> None:
    async def run() -> None:
        store = make_store(connect, 4.0, security=security)
        await store.start(20)
        try:
            await work(store)
        finally:
            await store.close()

    asyncio.run(run())


def has_tls_problem(store: AnyStore, text: str) -> bool:
    """True if a store knows that TLS failed for this reason."""
    if isinstance(store, NativeStore):
        return store._thread is not None and text in store._thread.tls_problem
    return store._client is not None and text in store._client.handler.tls_problem


def change_credentials(store: AnyStore, credentials: DigestCredentials) -> None:
    if isinstance(store, NativeStore):
        assert store._thread is not None
        store._thread._security = StoreSecurity(credentials=credentials)
    else:
        assert store._client is not None
        store._client._connection._credentials = credentials


def test_a_certificate_is_an_identity(secured: Secured, make_store: MakeStore) -> None:
    """`zookeeper.set.acl`: what a broker makes is its own; the world reads it, but where secrets are."""
    connect, chroot = secured.ensemble.secure_connect, f"/tls-{make_store.__name__}"
    owner = ZnodeAcl(ALL, "x509", "CN=broker,O=kafkalite")

    async def make(store: AnyStore) -> None:
        for path in (
            paths.TOPICS,
            paths.CONSUMERS,
            paths.CONFIG_USERS,
            paths.user_config("alice"),
            paths.DELEGATION_TOKENS,
        ):
            await store.create(path, b"x" * 40_000, parents=True)
        assert await store.read_acl("/") == [owner, WORLD_READS], "the chroot"
        assert await store.read_acl(paths.TOPICS) == [owner, WORLD_READS]
        assert await store.read_acl(paths.CONFIG) == [owner, WORLD_READS]
        assert await store.read_acl(paths.CONSUMERS) == list(OPEN)
        assert await store.read_acl(paths.user_config("alice")) == [owner]
        assert await store.read_acl(paths.DELEGATION_TOKENS) == [owner]
        assert len((await store.read(paths.TOPICS))[0]) == 40_000, "longer than a record of TLS"

    async def look(store: AnyStore) -> None:
        await store.read(paths.TOPICS)
        for refused in (
            store.write(paths.TOPICS, b""),
            store.create(paths.topic("t")),
            store.delete(paths.TOPICS),
            store.read(paths.user_config("alice")),
            store.children(paths.CONFIG_USERS),
            store.children(paths.DELEGATION_TOKENS),
        ):
            with pytest.raises(NoAuthError):
                await refused

    with_store(make_store, f"{connect}{chroot}", secured.certificate("broker"), make)
    with_store(make_store, f"{connect}{chroot}", secured.certificate("stranger"), look)
    with_store(make_store, f"{secured.ensemble.connect}{chroot}", PLAINTEXT, look)


def test_nobody_connects_with_tls_who_shows_no_certificate_of_the_authority(
    secured: Secured, make_store: MakeStore
) -> None:
    with_own = secured.certificate("broker")
    foreign = secured.certificate("foreign", Authority("another"))
    nobody = security_of_texts(
        {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": secured.truststore}, {}
    )
    distrusting = security_of_texts({"zookeeper.ssl.client.enable": "true"}, {})

    async def refused(security: StoreSecurity, connect: str) -> None:
        store = make_store(connect, 4.0, security=security)
        with pytest.raises(TimeoutError):
            await store.start(1)

    async def named() -> None:
        """The reason for which TLS fails is known to whoever reports that there is no session."""
        store = make_store(secured.ensemble.secure_connect, 4.0, security=distrusting)
        starting = asyncio.create_task(store.start(60))
        async with asyncio.timeout(30):
            while not has_tls_problem(store, "certificate verify failed"):
                await asyncio.sleep(0.01)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await store.close()

    async def run() -> None:
        secure = secured.ensemble.secure_connect
        await asyncio.gather(
            *(refused(each, secure) for each in (PLAINTEXT, nobody, foreign)),
            refused(with_own, secured.ensemble.connect),
            named(),
        )

    asyncio.run(run())


def test_a_user_authenticates_again_after_each_loss_of_the_connection(
    secured: Secured, make_store: MakeStore, drop_connection: Callable[[AnyStore], None]
) -> None:
    connect = f"{secured.ensemble.connect}/sasl-{make_store.__name__}"
    owner = ZnodeAcl(ALL, "sasl", "kafka")

    async def make(store: AnyStore) -> None:
        await store.create(paths.CONFIG_USERS, parents=True)
        lost = asyncio.Event()
        store.add_session_listener(lambda state: lost.set() if state is SessionState.SUSPENDED else None)
        drop_connection(store)
        await asyncio.wait_for(lost.wait(), 20)
        await store.create(paths.user_config("alice"))  # a child of what only its owner may change
        assert await store.read_acl(paths.user_config("alice")) == [owner]

    async def stranger(store: AnyStore) -> None:
        with pytest.raises(NoAuthError):
            await store.read(paths.user_config("alice"))
        with pytest.raises(NoAuthError) as caught:
            await store.read_many([paths.CONFIG_CHANGES, paths.user_config("alice"), paths.topic("none")])
        assert caught.value.path == paths.user_config("alice")
        assert await store.read_many(["/", paths.topic("none")]) == [await store.read("/"), None]

    with_store(make_store, connect, StoreSecurity(credentials=BROKER, sets_acls=True), make)
    with_store(make_store, connect, PLAINTEXT, stranger)


def test_a_wrong_password_ends_the_start_with_its_reason(secured: Secured, make_store: MakeStore) -> None:
    async def run() -> None:
        store = make_store(
            secured.ensemble.connect, 4.0, security=StoreSecurity(credentials=DigestCredentials("kafka", "wrong"))
        )
        with pytest.raises(AuthFailedError, match="refused"):
            await store.start(20)

    asyncio.run(run())


def test_who_is_refused_while_it_runs_tries_again_with_a_new_session(
    secured: Secured, make_store: MakeStore, drop_connection: Callable[[AnyStore], None]
) -> None:
    """As a broker does whose password is changed at the servers before it is changed in its own file."""

    async def run() -> None:
        store = make_store(secured.ensemble.connect, 4.0, security=StoreSecurity(credentials=BROKER))
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        store.add_session_listener(states.put_nowait)
        await store.start(20)
        first = store.session_id
        change_credentials(store, DigestCredentials(BROKER.username, "changed"))
        drop_connection(store)
        async with asyncio.timeout(30):
            while await states.get() is not SessionState.EXPIRED:
                pass
            change_credentials(store, BROKER)
            while await states.get() is not SessionState.CONNECTED:
                pass
        await store.exists("/")
        assert store.session_id != first
        await store.close()

    asyncio.run(run())


def test_a_session_is_ended_over_tls(secured: Secured) -> None:
    """With id and password by whoever is let in, the owner of the session or not."""
    secure = secured.ensemble.secure_connect
    stranger = secured.certificate("stranger")

    async def run() -> None:
        owner = KazooStore(secure, 100.0, security=secured.certificate("broker"))
        await owner.start(20)
        ended = (owner.session_id, owner.session_password)
        for outsider in (PLAINTEXT, secured.certificate("foreign", Authority("another"))):
            with pytest.raises(StoreError):
                await request_session_end(secure, *ended, outsider, 1)
        await owner.sync()
        assert owner.session_id == ended[0]
        assert await asyncio.to_thread(end_session, secure, *ended, stranger, 30) is SessionEnding.ENDED
        async with asyncio.timeout(30):
            while owner.session_id == ended[0] or owner.state is not SessionState.CONNECTED:
                await asyncio.sleep(0.005)
        assert await owner.end_session(*ended, 30) is SessionEnding.REFUSED
        await owner.close()

    asyncio.run(run())


def test_a_takeover_with_a_wrong_password_cuts_the_connection_of_the_owner_and_not_its_session(
    secured: Secured,
) -> None:
    """A weakness of ZooKeeper's: the server closes the owner's connection, at whichever port, before it looks at the password."""
    member = secured.ensemble.member(1)

    async def run() -> None:
        owner = KazooStore(f"{HOST}:{member.ports.secure}", 20.0, security=secured.certificate("broker"))
        await owner.start(20)
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        owner.add_session_listener(states.put_nowait)
        session_id = owner.session_id
        refused = await request_session_end(member.address, session_id, bytes(16), PLAINTEXT, 30)
        assert refused is SessionEnding.REFUSED
        async with asyncio.timeout(30):
            assert [await states.get() for _ in range(2)] == [SessionState.SUSPENDED, SessionState.CONNECTED]
        await owner.sync()
        assert owner.session_id == session_id
        await owner.close()

    asyncio.run(run())
