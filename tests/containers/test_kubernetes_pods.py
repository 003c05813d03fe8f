"""The pods of deploy/kubernetes as containers: their commands, variables, users, names and probes, without a Kubernetes.

Docker's DNS plays the headless services.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import docker
import pytest
from docker.models.containers import Container
from docker.models.networks import Network

from kafkalite.local.broker_process import wait_until
from kafkalite.testing.containers.owner import owner_labels
from tests.deploy.manifests import container_of, given_variables, named, pod_of

READY_TIMEOUT_S: Final = 120
_KINDS: Final = ("startupProbe", "readinessProbe", "livenessProbe")


class Pod(NamedTuple):
    """A container, and what the manifest says of it."""

    manifest: dict[str, Any]
    container: Container

    def passes(self, probe: dict[str, Any]) -> bool:
        if "exec" in probe:
            return self.container.exec_run(probe["exec"]["command"]).exit_code == 0
        ports = {each["name"]: each["containerPort"] for each in container_of(self.manifest)["ports"]}
        port = ports[(probe.get("httpGet") or probe["tcpSocket"])["port"]]
        if "tcpSocket" in probe:
            return self.container.exec_run(["nc", "-z", self.address, str(port)]).exit_code == 0
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}{probe['httpGet']['path']}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    @property
    def address(self) -> str:
        self.container.reload()
        (network,) = self.container.attrs["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def ready(self) -> bool:
        return all(self.passes(container_of(self.manifest)[kind]) for kind in _KINDS)


def start(client: docker.DockerClient, network: Network, image: str, stateful_set: dict[str, Any], number: int) -> Pod:
    """As the kubelet would."""
    container, pod = container_of(stateful_set), pod_of(stateful_set)
    name = f"{stateful_set['metadata']['name']}-{number}"
    service, namespace = stateful_set["spec"]["serviceName"], stateful_set["metadata"]["namespace"]
    names = [f"{name}.{service}", f"{name}.{service}.{namespace}.svc.cluster.local"]
    made = client.containers.create(
        image,
        entrypoint=container["command"],
        command=container["args"],
        environment=given_variables(stateful_set),
        hostname=name,
        user=f"{pod['securityContext']['runAsUser']}:0",
        cap_drop=container["securityContext"]["capabilities"]["drop"],
        security_opt=["no-new-privileges"],
        labels=owner_labels(),
    )
    network.connect(made, aliases=names)
    client.networks.get("bridge").disconnect(made)
    made.start()
    return Pod(stateful_set, made)


@pytest.fixture(scope="module")
def pods(engine: docker.DockerClient, image: str) -> Iterator[dict[str, Pod]]:
    network = engine.networks.create(f"kafkalite-pods-{os.getpid()}", labels=owner_labels())
    started: dict[str, Pod] = {}
    try:
        for name in ("zookeeper", "broker"):
            stateful_set = named("StatefulSet", name)
            for number in range(stateful_set["spec"]["replicas"]):
                started[f"{name}-{number}"] = start(engine, network, image, stateful_set, number)
        yield started
    finally:
        for pod in started.values():
            pod.container.remove(force=True, v=True)
        network.remove()


def test_all_probes_succeed(pods: dict[str, Pod]) -> None:
    for name, pod in pods.items():
        try:
            wait_until(pod.ready, f"probes of {name}", READY_TIMEOUT_S)
        except TimeoutError as problem:
            raise TimeoutError(f"{problem}\n{pod.container.logs(tail=40).decode(errors='replace')}") from None


def test_brokers_know_each_other_by_the_names_of_the_service(pods: dict[str, Pod]) -> None:
    bootstrap = "broker-1.broker.kafkalite.svc.cluster.local:9092"
    for command, expected in (
        (["kafkalite", "cluster", "health", "--wait", "-b", bootstrap], ""),
        (["kafkalite", "cluster", "info", "-o", "name", "-b", bootstrap], "0\n1\n2\n"),
    ):
        done = pods["broker-0"].container.exec_run(command)
        assert done.exit_code == 0, done.output.decode()
        assert expected in done.output.decode()


def test_a_pod_that_is_deleted_stops_in_its_time(pods: dict[str, Pod]) -> None:
    pod = pods["broker-2"]
    pod.container.stop(timeout=pod_of(pod.manifest)["terminationGracePeriodSeconds"])
    assert pod.container.wait()["StatusCode"] == 0
