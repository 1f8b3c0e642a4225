"""What Helm makes of the chart, as values to look at. A rendering takes a third of a second, so none is made twice."""

from __future__ import annotations

import copy
import functools
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from anabranch.devcluster import binaries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHART = Path(__file__).parents[2] / "charts/anabranch"
NAMESPACE = "memory"
EXISTING = {"database": {"existingSecret": "dsns"}}
"""The least that a rendering needs."""

TRIAL = {"database": {"mode": "trial"}}
CNPG = "postgresql.cnpg.io/v1"
CERT_MANAGER = "cert-manager.io/v1"
CLOUDNATIVEPG = {"database": {"mode": "cloudnativepg"}}


class Strict(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """A loader that refuses a key that stands twice, as kustomize and strict clients do and PyYAML does not."""

    def construct_mapping(self, node, deep=False):  # noqa: FBT002  (as PyYAML calls it)
        keys = [key.value for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"stand twice: {sorted(twice)}", node.start_mark)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Rendered:
    """The objects of a release, in Helm's order.

    Attributes:
        objects: All of them, hooks too.
    """

    objects: tuple[dict[str, Any], ...]

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """The one object of a kind and name."""
        (found,) = [each for each in self.of(kind) if each["metadata"]["name"] == name]
        return found

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Every object of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def names(self, kind: str) -> set[str]:
        """The names of the objects of a kind."""
        return {each["metadata"]["name"] for each in self.of(kind)}

    def pods(self) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        """Whose, metadata and spec of every pod that the release makes."""
        for each in self.objects:
            if each["kind"] == "Pod":
                yield each["metadata"]["name"], each["metadata"], each["spec"]
            elif each["kind"] in ("Deployment", "StatefulSet", "Job"):
                template = each["spec"]["template"]
                yield each["metadata"]["name"], template["metadata"], template["spec"]

    def pod(self, owner: str) -> dict[str, Any]:
        """The pods' spec of an owner, by the beginning of its name."""
        (found,) = [spec for name, _, spec in self.pods() if name.startswith(owner)]
        return found

    def container(self, owner: str) -> dict[str, Any]:
        """The one container of an owner's pods."""
        (found,) = self.pod(owner)["containers"]
        return found

    def env(self, owner: str) -> dict[str, Any]:
        """Environment of that container: a text, or the key of a Secret as (Secret, key)."""
        return environment(self.container(owner))


def environment(container: dict[str, Any]) -> dict[str, Any]:
    def value(entry):
        if "value" in entry:
            return entry["value"]
        reference = entry["valueFrom"]["secretKeyRef"]
        return reference["name"], reference["key"]

    return {entry["name"]: value(entry) for entry in container.get("env", ())}


class HelmError(Exception):
    """Helm refused; with its own words."""


class Helm:
    """A helm command, and the chart."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rendered = functools.cache(self._render)

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Run it, and return what it printed."""
        done = subprocess.run(
            [self.path, *arguments], check=False, capture_output=True, text=True, input=stdin, timeout=100
        )
        if done.returncode:
            raise HelmError(done.stderr)
        return done.stdout

    def render(self, values: dict[str, Any] | None = None, *, apis: Iterable[str] = (), namespace: str = NAMESPACE):
        """What it makes of some values, where the cluster has some APIs besides its own."""
        return copy.deepcopy(self._rendered(json.dumps(EXISTING if values is None else values), tuple(apis), namespace))

    def _render(self, values: str, apis: tuple[str, ...], namespace: str) -> Rendered:
        return Rendered(tuple(filter(None, yaml.load_all(self.text(values, apis, namespace), Loader=Strict))))

    def notes(self, values: dict[str, Any]) -> str:
        """What it tells whoever installs it."""
        given = ["--dry-run=client", f"--namespace={NAMESPACE}", "--values=-"]
        return self.run("install", "anabranch", str(CHART), *given, stdin=json.dumps(values)).split("\nNOTES:\n")[1]

    def text(self, values: str, apis: tuple[str, ...] = (), namespace: str = NAMESPACE) -> str:
        """The same, as it prints it."""
        given = [f"--api-versions={api}" for api in apis]
        return self.run(
            "template", "anabranch", str(CHART), f"--namespace={namespace}", "--values=-", *given, stdin=values
        )


def helm_at(name: str) -> Helm:
    built = binaries.path(name)
    found = built if built.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"there is no {name}: `python -m anabranch.devcluster build --node` builds it")
    return Helm(Path(found))
