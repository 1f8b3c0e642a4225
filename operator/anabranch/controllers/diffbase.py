"""How kopf tells whether it has handled an object: by the generation in its status, which the projector writes.

kopf's own way is an annotation with a copy of the spec: a second write for each change of an object, one more whenever
a label changes, and none at all once the copy outgrows an annotation. Kubernetes counts the changes of a spec already
(`metadata.generation`), and the status says which one it answers to (`observedGeneration`): with these two numbers kopf
writes nothing, and the one write of each change is the status itself.

So until the projector has written, kopf takes every event of the object for the same change. That is harmless, as
reconciling is level-triggered, and right: the change is handled when its status says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import kopf

if TYPE_CHECKING:
    from collections.abc import Iterable

GENERATION = "generation"


class ObservedGeneration(kopf.DiffBaseStorage):
    """A diff base of one number: what was handled last, against what there is to handle."""

    def build(self, *, body: kopf.Body, extra_fields: Iterable[Any] | None = None) -> kopf.BodyEssence:
        """What there is to handle: the generation of the spec."""
        del extra_fields  # nothing of the body is compared
        return _essence(body.metadata.get("generation", 0))

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """What was handled last; None before the first time, which makes it a creation."""
        observed = (body.get("status") or {}).get("observedGeneration", -1)
        return None if observed < 1 else _essence(observed)

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Write nothing: the projector does, when Postgres has it."""


def _essence(generation: int) -> kopf.BodyEssence:
    return cast("kopf.BodyEssence", {GENERATION: generation})
