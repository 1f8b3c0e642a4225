"""Baselines that import from a ConfigMap, or have their questions in one, are reconciled when it changes.

kopf would keep every ConfigMap of the cluster in memory to tell us of a few. Here only names travel, and only those
that some Baseline refers to are looked at: the Baseline's own reconcile then reads the ConfigMap and compares digests.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import structlog

from anabranch.controllers.keys import Key
from anabranch.kube import watch
from anabranch.kube.kinds import CONFIG_MAP
from anabranch.model.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.controllers.reconciler import Reconciler
    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import OwnName

_log = structlog.get_logger(__name__)
_PAUSE_SECONDS: Final = 1.0


class ConfigMapFollower:
    """Follows the ConfigMaps that Baselines name.

    Args:
        kube: To the API server.
        reconciler: Called for each Baseline whose ConfigMap changed.
        namespaces: Those served; empty: all.
    """

    def __init__(self, kube: KubeClient, reconciler: Reconciler, *, namespaces: Sequence[str] = ()) -> None:
        self._kube = kube
        self._reconciler = reconciler
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._followers: dict[tuple[str, str], dict[str, str]] = {}  # names of Baselines by uid, by ConfigMap
        self._followed: dict[str, set[tuple[str, str]]] = {}  # ConfigMaps by the Baseline's uid

    def observe(self, kind: OwnName, body: Mapping[str, Any]) -> None:
        """Note which ConfigMaps an object names, if it is a Baseline that does."""
        if kind != "Baseline":
            return
        metadata = body["metadata"]
        self.forget(metadata["uid"])
        if named := {(metadata["namespace"], name) for name in _named(body.get("spec") or {})}:
            self._followed[metadata["uid"]] = named
        for config_map in named:
            self._followers.setdefault(config_map, {})[metadata["uid"]] = metadata["name"]

    def forget(self, uid: str) -> None:
        """A Baseline is gone, or names others."""
        for config_map in self._followed.pop(uid, ()):
            del self._followers[config_map][uid]
            if not self._followers[config_map]:
                del self._followers[config_map]

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in self._namespaces:
                group.create_task(self._follow(namespace))

    async def _follow(self, namespace: str | None) -> None:
        while True:
            try:
                async for changed in watch.changes(self._kube, CONFIG_MAP, namespace=namespace):
                    await self._look(changed, namespace)
            except AnabranchError as error:
                _log.warning("ConfigMaps are not followed for now", error=str(error))
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _look(self, changed: watch.Changed, served: str | None) -> None:
        if changed == watch.RESYNC:
            concerned = [config_map for config_map in self._followers if served in {None, config_map[0]}]
        else:
            concerned = [(changed.namespace, changed.name)]
        for config_map in concerned:
            for name in list(self._followers.get(config_map, {}).values()):
                await self._reconciler.revisit(Key("Baseline", config_map[0], name))


def _named(spec: Mapping[str, Any]) -> set[str]:
    """Names of the ConfigMaps in a Baseline's spec."""
    sources = (
        (spec.get("import") or {}).get("configMap"),
        ((spec.get("recall") or {}).get("tasks") or {}).get("configMap"),
    )
    return {source["name"] for source in sources if source}
