"""What is known of a caller once their grants were asked, and what of a list that leaves them to see."""

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.api.parts import Parts
from anabranch.api.stores import Store
from anabranch.baselines import read as baselines
from anabranch.branches import read as branches
from anabranch.consolidation import read as consolidation
from anabranch.identity import Caller, Grant, grants
from anabranch.model.memory import AgentKey
from anabranch.store.branches import BranchRow
from anabranch.store.jobs import JobRow
from anabranch.store.lines import LineState


@dataclass(frozen=True, slots=True, kw_only=True)
class InNamespace:
    """A caller in a namespace."""

    caller: Caller
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBaseline:
    """A caller at a Baseline that they may use so.

    Attributes:
        store: Where the line lies.
        scopes: Those of the line's that the caller may read; empty where the route reads none.
    """

    caller: Caller
    store: Store
    state: LineState
    scopes: Sequence[str] = ()

    @property
    def line(self) -> str:
        """The line's id."""
        return self.state.head.line


@dataclass(frozen=True, slots=True, kw_only=True)
class OnBranch:
    """A caller at a branch.

    Attributes:
        store: Where its line lies.
    """

    caller: Caller
    store: Store
    branch: BranchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class OnJob:
    """A caller at a consolidation job.

    Attributes:
        store: Where its line lies.
        only_branch: Where the caller sees it only as the agent of this branch: what is not of it stays hidden.
    """

    caller: Caller
    store: Store
    job: JobRow
    only_branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnAgent:
    """An agent at what is its own.

    Attributes:
        store: Where it is.
        who: Which of its instances the request is about.
    """

    caller: Caller
    store: Store
    who: AgentKey


async def see_job(parts: Parts, caller: Caller, store: Store, job: JobRow) -> OnJob | None:
    """How a caller may see a job; None: not at all."""
    if await parts.grants.allowed(caller, grants.SEE_CANDIDATES, namespace=job.namespace, name=job.name):
        return OnJob(caller=caller, store=store, job=job)
    branch = await branches.get(store.db, job.branch_id) if job.branch_id else None
    if branch is None or not is_agent(caller, branch):
        return None
    own = await parts.grants.allowed(caller, grants.OWN_BRANCH, namespace=branch.namespace, name=branch.name)
    return OnJob(caller=caller, store=store, job=job, only_branch=branch.branch_id) if own else None


async def base_scopes(parts: Parts, at: OnBranch) -> Sequence[str]:
    """The scopes in which the agent may read its branch's parent manifest now."""
    branch, caller = at.branch, at.caller
    namespace, name = branch.baseline_namespace, branch.baseline_name
    if not await parts.grants.allowed(caller, grants.READ_RECORDS, namespace=namespace, name=name):
        return ()
    known = await baselines.scopes(at.store.db, branch.line)
    return await parts.grants.readable_scopes(caller, namespace=namespace, scopes=known)


def is_agent(caller: Caller, branch: BranchRow) -> bool:
    """Whether a caller is the agent whose run a branch is."""
    return caller.service_account == (branch.namespace, branch.service_account)


async def visible(parts: Parts, caller: Caller, grant: Grant, *, namespace: str, names: Sequence[str]) -> set[str]:
    """Those of some objects on which a caller holds a grant."""
    return set(await parts.grants.scopes(caller, grant, namespace=namespace, scopes=names))


async def readable_beside(parts: Parts, at: OnJob) -> Sequence[str] | None:
    """The scopes whose records the caller may see beside a job's candidates; None: all, for a reviewer."""
    if at.only_branch is None:
        return None
    branch = await branches.get(at.store.db, at.only_branch)
    if branch is None:
        return ()
    return await base_scopes(parts, OnBranch(caller=at.caller, store=at.store, branch=branch))


async def visible_jobs(
    parts: Parts, caller: Caller, store: Store, namespace: str, jobs: Sequence[JobRow]
) -> list[JobRow]:
    """Those of some jobs of a store that a caller may see: as a reviewer, or as the agent whose findings they hold."""
    names = [job.name for job in jobs]
    seen = await visible(parts, caller, grants.SEE_CANDIDATES, namespace=namespace, names=names)
    hidden = [job for job in jobs if job.name not in seen]
    origins = await consolidation.origins(store.db, hidden) if caller.service_account else {}
    own = {
        branch.branch_id
        for branch in origins.values()
        if is_agent(caller, branch)
        and await parts.grants.allowed(caller, grants.OWN_BRANCH, namespace=branch.namespace, name=branch.name)
    }
    return [job for job in jobs if job.name in seen or job.branch_id in own]
