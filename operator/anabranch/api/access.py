"""Who calls, and whether they may: a dependency for each kind of object that a route is about.

Every one of them authenticates first, then asks for the grants of its row, and only then looks at anything else of the
request, its body above all. An object that is absent and one that the caller may not know of are answered in the same
words.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Depends, Path
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from anabranch.api.parts import Parts, WithParts
from anabranch.api.routing import GRANT, may_fail
from anabranch.api.stores import Store
from anabranch.api.visibility import InNamespace, OnBaseline, OnBranch, OnJob, is_agent, see_job
from anabranch.baselines import read as baselines
from anabranch.branches import read as branches
from anabranch.consolidation import read as consolidation
from anabranch.identity import Caller, Grant, grants
from anabranch.identity.permissions import absent
from anabranch.model.errors import (
    ForbiddenError,
    NotFoundError,
    ReclaimedError,
    UnauthenticatedError,
    UnavailableError,
)
from anabranch.model.ids import is_id, line_of
from anabranch.store.branches import BranchRow
from anabranch.store.jobs import JobRow
from anabranch.store.lines import LineState

_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
NAME = r"^[a-z0-9]([-._a-z0-9]*[a-z0-9])?$"

NamespacePath = Annotated[str, Path(alias="namespace", max_length=63, pattern=_LABEL)]
BaselinePath = Annotated[str, Path(alias="baseline", max_length=253, pattern=NAME)]
BranchPath = Annotated[str, Path(alias="branch", max_length=253, pattern=NAME, description="id or resource name")]
JobPath = Annotated[str, Path(alias="job", max_length=253, pattern=NAME, description="id or resource name")]

_bearer = HTTPBearer(
    auto_error=False,
    bearerFormat="JWT",
    description="A token of the cluster for this installation's audience: `kubectl create token NAME --audience …`",
)
Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


class Asking:
    """A dependency that asks for grants.

    Args:
        rows: Rows of the table; the first one decides over the route.
        stale: Go on with answers of at most ten minutes ago while the API server cannot be reached.
    """

    def __init__(self, *rows: Grant, stale: bool = False) -> None:
        self.rows = rows
        self.stale = stale

    def document(self, operation: dict[str, Any]) -> None:
        """Name the rows, and what a caller without them is answered."""
        operation[GRANT] = [{"resource": row.resource, "verb": row.verb, "what": row.what} for row in self.rows]
        may_fail(operation, UnauthenticatedError, ForbiddenError, NotFoundError, UnavailableError)

    async def authenticate(self, parts: Parts, credentials: HTTPAuthorizationCredentials | None) -> Caller:
        """The caller."""
        return await parts.identity.authenticate(credentials.credentials if credentials else "", stale=self.stale)


class Namespaced(Asking):
    """For lists: the handler leaves out what its row does not show to the caller."""

    async def __call__(self, parts: WithParts, credentials: Credentials, namespace: NamespacePath) -> InNamespace:
        """Authenticate."""
        return InNamespace(caller=await self.authenticate(parts, credentials), namespace=namespace)


class Granted(Asking):
    """For what a grant in the namespace allows, with no object of its own."""

    async def __call__(self, parts: WithParts, credentials: Credentials, namespace: NamespacePath) -> InNamespace:
        """Authenticate, and require the grant."""
        caller = await self.authenticate(parts, credentials)
        await parts.grants.require(caller, self.rows[0], namespace=namespace)
        return InNamespace(caller=caller, namespace=namespace)


class OfBaseline(Asking):
    """For one Baseline; with the row of a scope verb also for the scopes that the caller holds it on."""

    async def __call__(
        self, parts: WithParts, credentials: Credentials, namespace: NamespacePath, baseline: BaselinePath
    ) -> OnBaseline:
        """Authenticate, require the grant, and find the line."""
        caller = await self.authenticate(parts, credentials)
        await parts.grants.require(caller, self.rows[0], namespace=namespace, name=baseline)
        return await self.of(caller, parts, namespace, baseline)

    async def of(self, caller: Caller, parts: Parts, namespace: str, baseline: str) -> OnBaseline:
        """The Baseline as a caller may use it who holds the grant on it.

        Raises:
            NotFoundError: If there is none.
        """
        found = await self.find(parts, namespace, baseline)
        if found is None:
            raise absent("baseline", namespace=namespace, name=baseline)
        store, state, known = found
        scopes: Sequence[str] = ()
        if grants.SCOPE_READ in self.rows:
            scopes = await parts.grants.readable_scopes(caller, namespace=namespace, scopes=known)
        return OnBaseline(caller=caller, store=store, state=state, scopes=scopes)

    async def find(self, parts: Parts, namespace: str, baseline: str) -> tuple[Store, LineState, Sequence[str]] | None:
        """Where the line lies, and the line with its scopes, as it is now."""
        met = await parts.stores.find(
            f"baseline {namespace}/{baseline}",
            lambda store: baselines.find_with_scopes(store.db, namespace=namespace, name=baseline),
        )
        return None if met is None else (met[0], *met[1])


class OfReadBaseline(OfBaseline):
    """For reading a record: a Baseline perhaps as it was, for the statement that reads finds out whether it is there.

    A line has its name for as long as it has a Baseline, and scopes that it had once it has for ever. So whatever is
    read is right, and who finds nothing looks `again`: another line may have the name by now, or the line more scopes.
    """

    async def find(self, parts: Parts, namespace: str, baseline: str) -> tuple[Store, LineState, Sequence[str]] | None:
        """Where the line lies, and the line with its scopes; perhaps as it was."""
        known = parts.baselines.get(f"{namespace}/{baseline}")
        if known is not None and known[0].fault is None:
            return known
        found = await super().find(parts, namespace, baseline)
        if found is not None:
            parts.baselines.keep(f"{namespace}/{baseline}", found)
        return found

    async def again(self, parts: Parts, at: OnBaseline) -> OnBaseline:
        """The Baseline of this name as it is now.

        Raises:
            NotFoundError: If there is none any more.
        """
        line = at.state.line
        parts.baselines.forget(f"{line.namespace}/{line.name}")
        return await self.of(at.caller, parts, line.namespace, line.name)


class OfBranch(Asking):
    """For one branch, as anybody may see it who may see its resource."""

    async def __call__(
        self, parts: WithParts, credentials: Credentials, namespace: NamespacePath, branch: BranchPath
    ) -> OnBranch:
        """Authenticate, find the branch, and check the grant."""
        caller = await self.authenticate(parts, credentials)
        store, row = await self.find(parts, namespace, branch)
        name = row.name if row else branch
        allowed = await parts.grants.allowed(caller, self.rows[0], namespace=namespace, name=name, stale=self.stale)
        if row is None or not allowed or not self.admits(caller, row):
            raise absent("branch", namespace=namespace, name=branch)
        return OnBranch(caller=caller, store=store, branch=row)

    async def find(self, parts: Parts, namespace: str, ref: str) -> tuple[Store, BranchRow] | tuple[Store, None]:
        """The branch of an id or a name, as it is now, and where it lies."""
        return await _branch(parts, namespace, ref) or (parts.stores.default, None)

    def admits(self, caller: Caller, row: BranchRow) -> bool:  # noqa: ARG002  (the narrower kind looks at both)
        """Whether the branch is open to this caller, beside the grant."""
        return True


class OfOwnBranch(OfBranch):
    """For what only the branch's own agent may touch, whatever grants others hold."""

    async def __call__(
        self, parts: WithParts, credentials: Credentials, namespace: NamespacePath, branch: BranchPath
    ) -> OnBranch:
        """Authenticate, find the branch, check the grant, and that the branch has its data still."""
        seen = await super().__call__(parts, credentials, namespace, branch)
        if seen.branch.kept != "whole":
            raise ReclaimedError(
                "The run is over, and retention has removed what it brought.", hint="Fork a new branch to go on."
            )
        return seen

    def document(self, operation: dict[str, Any]) -> None:
        """Say that the data may be gone."""
        super().document(operation)
        may_fail(operation, ReclaimedError)

    def admits(self, caller: Caller, row: BranchRow) -> bool:
        """Whether the caller is the branch's agent."""
        return is_agent(caller, row)


class OfReceivingBranch(OfOwnBranch):
    """For the receipt of batches: a branch by its id as it once was, for the statement that receives looks at it again.

    An id stands for one branch for ever, and with it its names, its agent and its Baseline. Whether it is open still is
    asked where that cannot change any more before the answer holds.
    """

    async def find(self, parts: Parts, namespace: str, ref: str) -> tuple[Store, BranchRow] | tuple[Store, None]:
        """The branch of an id or a name, and where it lies; by its id perhaps as it was."""
        known = parts.runs.get(ref)
        if known is not None and known[0].fault is None and known[1].namespace == namespace:
            return known
        store, row = await super().find(parts, namespace, ref)
        if row is None:
            return store, None
        if row.branch_id == ref and row.kept == "whole":
            parts.runs.keep(ref, (store, row))
        return store, row


class OfJob(Asking):
    """For one consolidation job, as a reviewer, or as the agent whose findings it holds."""

    async def __call__(
        self, parts: WithParts, credentials: Credentials, namespace: NamespacePath, job: JobPath
    ) -> OnJob:
        """Authenticate, find the job, and check the grant."""
        caller = await self.authenticate(parts, credentials)
        met = await _job(parts, namespace, job)
        seen = await see_job(parts, caller, *met) if met is not None else None
        if seen is None:
            raise absent("job", namespace=namespace, name=job)
        return seen


class OfReview(OfJob):
    """For deciding on a job's candidates."""

    async def __call__(
        self, parts: WithParts, credentials: Credentials, namespace: NamespacePath, job: JobPath
    ) -> OnJob:
        """Authenticate, find the job, and require the grant to decide."""
        seen = await super().__call__(parts, credentials, namespace, job)
        if not await parts.grants.allowed(seen.caller, self.rows[0], namespace=namespace, name=seen.job.name):
            grant = self.rows[0]
            raise ForbiddenError(
                f"{seen.caller.username} lacks the verb `{grant.verb}` on `{grant.resource}` in namespace {namespace}.",
                hint=f"Ask for a Role that allows it: it lets one {grant.what}.",
                grant=f"{grant.resource}:{grant.verb}",
            )
        return seen


async def _job(parts: Parts, namespace: str, ref: str) -> tuple[Store, JobRow] | None:
    """A job by its id or its resource's name, and its store.

    What a name stood for before is kept for a while, in a store where its Baseline is no more perhaps.
    """
    place = line_of(ref) if is_id("job", ref) else f"job {namespace}/{ref}"

    async def any_of(store: Store) -> JobRow | None:
        return await consolidation.find(store.db, namespace=namespace, ref=ref)

    async def live(store: Store) -> JobRow | None:
        found = await any_of(store)
        return None if found is None or found.deleted_at is not None else found

    return await parts.stores.find(place, live) or await parts.stores.find(f"former {place}", any_of)


async def _branch(parts: Parts, namespace: str, ref: str) -> tuple[Store, BranchRow] | None:
    if not is_id("br", ref):
        return await parts.stores.find(
            f"branch {namespace}/{ref}", lambda store: branches.find(store.db, namespace=namespace, name=ref)
        )
    met = await parts.stores.find(line_of(ref), lambda store: branches.get(store.db, ref))
    return met if met is not None and met[1].namespace == namespace and met[1].deleted_at is None else None
