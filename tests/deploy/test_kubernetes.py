"""The manifests: accepted by Kubernetes' own schemas, consistent in themselves, and their containers get settings that work."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import Final

import kubernetes_validate
import pytest
import yaml

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.broker_keys import BROKER_KEYS
from kafkalite.config.environment import container_settings
from tests.deploy.manifests import FOLDER, Manifest, container_of, given_variables, manifests, named, of_kind, pod_of

OLDEST_VERSION: Final = (1, 25)
"""Of Kubernetes: earlier ones are no longer kept up by anybody."""

VERSIONS: Final = [
    version
    for version in kubernetes_validate.utils.all_versions()
    if tuple(map(int, version.split(".")[:2])) >= OLDEST_VERSION
]


def variables(stateful_set: Manifest, hostname: str) -> dict[str, str]:
    """What the start script of a pod hands to the image, seen by running it with `env` in the place of the image."""
    container = container_of(stateful_set)
    given = {"HOSTNAME": hostname, "PATH": os.environ["PATH"], **given_variables(stateful_set)}
    (script,) = container["args"]
    assert "exec /etc/confluent/docker/run\n" in script
    command = [*container["command"], script.replace("exec /etc/confluent/docker/run", "exec env -0")]
    printed = subprocess.run(command, env=given, capture_output=True, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in printed.split("\0") if line)


def test_every_file_is_part_of_what_is_applied() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in FOLDER.iterdir()} == {*listed, "kustomization.yaml"}


@pytest.mark.parametrize("version", VERSIONS)
def test_schemas_of_kubernetes_accept_the_manifests(version: str) -> None:
    for manifest in manifests():
        kubernetes_validate.validate(manifest, version, strict=True)


def test_the_validator_finds_errors() -> None:
    """Otherwise the test above would mean nothing."""
    broken = {**named("StatefulSet", "broker"), "spec": {"replicas": "three"}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[-1], strict=True)


def test_all_is_in_one_namespace() -> None:
    (namespace,) = of_kind("Namespace")
    others = {each["metadata"]["namespace"] for each in manifests() if each is not namespace}
    assert others == {namespace["metadata"]["name"]}


@pytest.mark.parametrize("name", ["zookeeper", "broker"])
def test_parts_select_the_pods_that_they_mean(name: str) -> None:
    stateful_set = named("StatefulSet", name)
    labels = stateful_set["spec"]["template"]["metadata"]["labels"]
    service = named("Service", stateful_set["spec"]["serviceName"])
    selectors = [
        stateful_set["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        named("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in pod_of(stateful_set)["topologySpreadConstraints"]),
    ]
    assert all(selector == labels for selector in selectors)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    others = [each for each in of_kind("StatefulSet") if each is not stateful_set]
    assert not any(labels.items() <= each["spec"]["template"]["metadata"]["labels"].items() for each in others)


@pytest.mark.parametrize("name", ["zookeeper", "broker"])
def test_ports_of_services_and_probes_are_ports_of_the_container(name: str) -> None:
    container = container_of(named("StatefulSet", name))
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    for service in of_kind("Service"):
        if service["spec"]["selector"]["app.kubernetes.io/name"] == name:
            assert {each["name"]: each["port"] for each in service["spec"]["ports"]}.items() <= ports.items()
    probes = [container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")]
    asked = [probe[kind]["port"] for probe in probes for kind in ("httpGet", "tcpSocket") if kind in probe]
    assert set(asked) <= ports.keys()
    programs = {probe["exec"]["command"][0] for probe in probes if "exec" in probe}
    assert programs <= {"/etc/confluent/docker/healthcheck"}


@pytest.mark.parametrize("name", ["zookeeper", "broker"])
def test_volumes_hold_what_must_last(name: str) -> None:
    stateful_set = named("StatefulSet", name)
    claims = {each["metadata"]["name"] for each in stateful_set["spec"]["volumeClaimTemplates"]}
    mounts = container_of(stateful_set)["volumeMounts"]
    assert {each["name"] for each in mounts} == claims
    settings = container_settings(variables(stateful_set, f"{name}-0"), f"{name}-0")
    if settings.broker is not None:
        needed = {settings.broker["log.dirs"]}
    else:
        assert settings.zookeeper is not None
        needed = {settings.zookeeper["dataDir"], settings.zookeeper["dataLogDir"]}
    assert {each["mountPath"] for each in mounts} == needed


@pytest.mark.parametrize("name", ["zookeeper", "broker"])
def test_pods_keep_the_rules_of_the_restricted_profile(name: str) -> None:
    """Kubernetes' Pod Security Standards, which no schema has."""
    (namespace,) = of_kind("Namespace")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = pod_of(named("StatefulSet", name))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod["containers"]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod.get("volumes", ()))


def broker_settings(number: int) -> Mapping[str, str]:
    hostname = f"broker-{number}"
    settings = container_settings(variables(named("StatefulSet", "broker"), hostname), hostname).broker
    assert settings is not None
    return settings


def test_brokers_get_settings_that_they_know() -> None:
    for number in range(3):
        settings = broker_settings(number)
        assert settings.keys() <= BROKER_KEYS.keys()
        config = BrokerConfig.from_properties(settings)
        assert config.broker_id == number
        (advertised,) = config.advertised_listeners
        assert (advertised.host, advertised.port) == (f"broker-{number}.broker.kafkalite.svc.cluster.local", 9092)


def test_replication_fits_the_number_of_brokers() -> None:
    replicas = named("StatefulSet", "broker")["spec"]["replicas"]
    settings = broker_settings(0)
    assert settings["default.replication.factor"] == settings["offsets.topic.replication.factor"] == str(replicas)
    away = named("PodDisruptionBudget", "broker")["spec"]["maxUnavailable"]
    assert replicas - away >= int(settings["min.insync.replicas"])


def test_members_of_the_ensemble_know_each_other_and_brokers_know_them() -> None:
    stateful_set = named("StatefulSet", "zookeeper")
    replicas = stateful_set["spec"]["replicas"]
    names = [f"zookeeper-{number}.{stateful_set['spec']['serviceName']}" for number in range(replicas)]
    for number in range(replicas):
        hostname = f"zookeeper-{number}"
        found = container_settings(variables(stateful_set, hostname), hostname)
        assert found.zookeeper is not None
        assert found.zookeeper_id == number + 1
        members = {key: text for key, text in found.zookeeper.items() if key.startswith("server.")}
        assert members == {f"server.{n}": f"{name}:2888:3888" for n, name in enumerate(names, 1)}
    assert broker_settings(0)["zookeeper.connect"] == ",".join(f"{name}:2181" for name in names)


def test_only_brokers_and_members_reach_zookeeper() -> None:
    (policy,) = of_kind("NetworkPolicy")
    allowed = policy["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    for name in ("zookeeper", "broker"):
        labels = named("StatefulSet", name)["spec"]["template"]["metadata"]["labels"]
        assert allowed.items() <= labels.items()
    guarded = policy["spec"]["podSelector"]["matchLabels"]
    assert guarded == named("StatefulSet", "zookeeper")["spec"]["selector"]["matchLabels"]


def test_the_image_is_named_in_one_place() -> None:
    text = "".join(path.read_text() for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
    assert set(re.findall(r"^\s*image: (\S+)$", text, re.MULTILINE)) == {"kafkalite"}
