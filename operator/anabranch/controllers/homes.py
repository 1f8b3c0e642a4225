"""Whose a resource is, where an installation has several databases: each has an operator, and all of them see it.

It follows from resources alone, so that all operators come to the same answer. A Baseline names its store. A Branch or
a job is that store's whose operator has taken it up, which its status says; before that, its Baseline's. What leads
nowhere, to a Baseline that is absent or to a store that nobody knows, is the default store's, whose operator says what
is the matter. When what was absent comes, whatever named it is looked at again; so it is when a Baseline that was
another store's is made anew in this one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from anabranch.controllers.keys import Key
from anabranch.kube.kinds import BASELINE, BRANCH
from anabranch.model.stores import DEFAULT_STORE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from anabranch.kube.client import KubeClient
    from anabranch.kube.kinds import OwnName

LABEL: Final = "anabranch.dev/store"
"""On the jobs that operators make: whose they are, until their status says it."""

_REMEMBERED_SECONDS: Final = 10.0
"""How long it is believed which store a Baseline names: one of the same name may be made anew, in another."""

_IDS: Final = ("branchId", "jobId")


class Homes:
    """Tells what is this operator's.

    Args:
        kube: Where a Baseline or a Branch is looked up that was not seen yet.
        own: The store of this operator.
        others: The installation's stores besides the default one.
        clock: Seconds, monotonic.
    """

    def __init__(
        self,
        kube: KubeClient,
        *,
        own: str = DEFAULT_STORE,
        others: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._own = own
        self._known = frozenset({DEFAULT_STORE, *others})
        self._clock = clock
        self._baselines: dict[tuple[str, str], tuple[str, float]] = {}
        self._astray: dict[Key, Key] = {}
        self._elsewhere: dict[Key, Key] = {}

    @property
    def several(self) -> bool:
        """Whether there are other stores."""
        return len(self._known) > 1

    async def is_own(self, key: Key, body: Mapping[str, Any]) -> bool:
        """Whether a resource is this operator's to see to.

        Args:
            key: Of the resource.
            body: In its JSON form.

        Raises:
            UnavailableError: If the API server had to be asked, and cannot be.
        """
        if not self.several:
            return True
        if key.kind == "Baseline":
            self._remember((key.namespace, key.name), body)
        return await self._home(key, body) == self._own

    def is_others(self, kind: OwnName, body: Mapping[str, Any]) -> bool:
        """Whether a resource says by itself that it is another operator's."""
        if not self.several:
            return False
        named = _named(kind, body)
        return named is not None and (named if named in self._known else DEFAULT_STORE) != self._own

    def unknown(self, kind: OwnName, body: Mapping[str, Any]) -> str | None:
        """The store that a resource names, if this installation has none of that name."""
        named = _named(kind, body)
        return None if named is None or named in self._known else named

    def found(self, key: Key) -> list[Key]:
        """What named a resource while it was absent, or another store's, and is to be looked at again now."""
        found = [astray for astray, absent in list(self._astray.items()) if absent == key]
        if self._baselines.get((key.namespace, key.name), ("", 0.0))[0] == self._own:
            found += [other for other, baseline in list(self._elsewhere.items()) if baseline == key]
        return found

    def forget(self, key: Key) -> None:
        """A resource is gone."""
        self._settle(key)
        if key.kind == "Baseline":
            self._baselines.pop((key.namespace, key.name), None)

    async def _home(self, key: Key, body: Mapping[str, Any]) -> str:
        named = _named(key.kind, body)
        if named is not None:
            self._settle(key)
            return named if named in self._known else DEFAULT_STORE
        ref = (body.get("spec") or {}).get("baselineRef" if key.kind == "Branch" else "branchRef")
        if ref is None:  # a job that only an operator makes, and none has
            return DEFAULT_STORE
        namespace, name = ref.get("namespace") or key.namespace, ref["name"]
        if key.kind == "Branch":
            return await self._of_baseline(namespace, name, asking=key)
        return await self._of_branch(namespace, name, asking=key)

    async def _of_branch(self, namespace: str, name: str, *, asking: Key) -> str:
        branch = Key("Branch", namespace, name)
        # Noted before it is looked for: if it comes in between, it is found to be awaited.
        self._astray[asking] = branch
        body = await self._kube.find(BRANCH, namespace=namespace, name=name)
        if body is None:
            return DEFAULT_STORE
        self._astray.pop(asking, None)  # who has seen it meanwhile may have settled it
        named = _named("Branch", body)
        if named is not None:
            return named if named in self._known else DEFAULT_STORE
        ref = body["spec"]["baselineRef"]
        return await self._of_baseline(ref.get("namespace") or namespace, ref["name"], asking=asking)

    async def _of_baseline(self, namespace: str, name: str, *, asking: Key) -> str:
        store, until = self._baselines.get((namespace, name), ("", 0.0))
        if self._clock() >= until:
            self._astray[asking] = Key("Baseline", namespace, name)
            body = await self._kube.find(BASELINE, namespace=namespace, name=name)
            if body is None:
                return DEFAULT_STORE
            store = self._remember((namespace, name), body)
        self._settle(asking)
        home = store if store in self._known else DEFAULT_STORE
        if home != self._own:
            self._elsewhere[asking] = Key("Baseline", namespace, name)
        return home

    def _settle(self, key: Key) -> None:
        """Nothing more is to be looked out for on a resource's behalf."""
        self._astray.pop(key, None)
        self._elsewhere.pop(key, None)

    def _remember(self, place: tuple[str, str], body: Mapping[str, Any]) -> str:
        store = _named("Baseline", body) or DEFAULT_STORE
        self._baselines[place] = (store, self._clock() + _REMEMBERED_SECONDS)
        return store


def _named(kind: OwnName, body: Mapping[str, Any]) -> str | None:
    """The store that a resource names by itself; None: that of what it names."""
    if kind == "Baseline":
        return str((body.get("spec") or {}).get("store") or DEFAULT_STORE)
    status = body.get("status") or {}
    if (store := status.get("store")) is not None:
        return str(store)
    if any(status.get(identifier) for identifier in _IDS):
        return DEFAULT_STORE
    label = (body["metadata"].get("labels") or {}).get(LABEL)
    return str(label) if kind == "ConsolidationJob" and label else None
