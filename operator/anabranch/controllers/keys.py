"""What names an object: of which kind it is, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.kube.kinds import OwnName


@dataclass(frozen=True)
class Key:
    """Names an object: of which kind, and where."""

    kind: OwnName
    namespace: str
    name: str

    def named(self) -> dict[str, str]:
        """The members by which logs and traces tell of it."""
        name = {"Baseline": "baseline", "Branch": "branch", "ConsolidationJob": "job"}[self.kind]
        return {"namespace": self.namespace, name: self.name}
