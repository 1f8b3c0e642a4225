"""What a branch may share: its own policy, which can only narrow what a grant allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


KEPT_BACK: Final = frozenset({"ExportNotPermitted", "ExportNotGranted", "ScopeNotShared"})
"""Reasons for which a change stays on its branch, so that nobody is shown its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """A Branch's ``spec.sharingPolicy``, as far as it decides over findings.

    Attributes:
        scopes: Scopes that findings may be in; empty: any.
        export_private: Whether private changes may be submitted.
    """

    scopes: frozenset[str] = frozenset()
    export_private: bool = False

    @classmethod
    def parse(cls, policy: Mapping[str, Any]) -> Self:
        """The policy of a `SharingPolicy` in its JSON form."""
        return cls(scopes=frozenset(policy.get("scopes") or ()), export_private=bool(policy.get("export_private")))

    def refusal(self, *, scope: str, visibility: str) -> tuple[str, str] | None:
        """Why a change may not leave the branch, as a reason and its words for people; None if it may."""
        if visibility == "private" and not self.export_private:
            return "ExportNotPermitted", "the change is private, and the branch's sharingPolicy.exportPrivate is false"
        if self.scopes and scope not in self.scopes:
            return "ScopeNotShared", f"scope {scope} is not among the branch's sharingPolicy.scopes"
        return None
