"""The caller of a request, as the API server verified it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from anabranch.kube.reviews import User

if TYPE_CHECKING:
    from anabranch.model.crd import BranchResource

_PREFIX: Final = "system:serviceaccount:"


@dataclass(frozen=True)
class Caller(User):
    """A verified identity. Grants are always asked with all of it: groups and extra decide as much as the name."""

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Namespace and name, if the caller is a ServiceAccount."""
        namespace, _, name = self.username.removeprefix(_PREFIX).partition(":")
        return (namespace, name) if self.username.startswith(_PREFIX) and namespace and name else None

    @classmethod
    def for_service_account(cls, namespace: str, name: str) -> Self:
        """The identity that a ServiceAccount's token would have, for questions the operator asks on its behalf.

        The API server gives every ServiceAccount these groups, and no others, so such a question is as good as one
        with a token. Of people it would not be: their groups are known only from their own request.
        """
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return cls(username=f"{_PREFIX}{namespace}:{name}", groups=groups)

    @classmethod
    def for_agent(cls, branch: BranchResource) -> Self:
        """The identity of a Branch's agent: its ServiceAccount, in the Branch's namespace."""
        return cls.for_service_account(branch.namespace, branch.spec.agent.service_account_name)
