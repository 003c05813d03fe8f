"""The manifests of deploy/kubernetes, as `kubectl apply -k` would send them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

import kafkalite
from tests.conftest import foreign_program

Manifest: TypeAlias = dict[str, Any]

FOLDER: Final = Path(kafkalite.__file__).parents[1] / "deploy" / "kubernetes"


@cache
def manifests() -> list[Manifest]:
    """What `kubectl apply -k` would send."""
    kubectl = foreign_program("kubectl", "kubernetes-client")
    done = subprocess.run([kubectl, "kustomize", FOLDER], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def of_kind(kind: str) -> Iterator[Manifest]:
    return (each for each in manifests() if each["kind"] == kind)


def named(kind: str, name: str) -> Manifest:
    (found,) = [each for each in of_kind(kind) if each["metadata"]["name"] == name]
    return found


def pod_of(stateful_set: Manifest) -> Manifest:
    return stateful_set["spec"]["template"]["spec"]


def container_of(stateful_set: Manifest) -> Manifest:
    (found,) = pod_of(stateful_set)["containers"]
    return found


def given_variables(stateful_set: Manifest) -> dict[str, str]:
    """What a container of the set finds in its environment."""
    given: dict[str, str] = {}
    for source in container_of(stateful_set).get("envFrom", ()):
        given |= named("ConfigMap", source["configMapRef"]["name"])["data"]
    for each in container_of(stateful_set)["env"]:
        is_namespace = each.get("valueFrom") == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        given[each["name"]] = stateful_set["metadata"]["namespace"] if is_namespace else each["value"]
    return given
