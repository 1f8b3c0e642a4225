"""The desk of a person with a kubeconfig: reads by a short-lived token that they minted, decisions by their kubectl.

So what they decide on a page is what they could decide by `kubectl patch`: it stands in the job's resource under their
name, admission checks the grant, and the audit log of the cluster shows it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from anabranch.cli import merging
from anabranch.cli.output import take
from anabranch.cli.review import check_guard, note
from anabranch.model.errors import ConflictError, ForbiddenError, NotFoundError, UnauthenticatedError
from anabranch.web.desk import DecidedMeanwhileError, Voice
from anabranch.web.heard import check_heard, noted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from anabranch.cli.connection import Connection
    from anabranch.cli.kubectl import Kubectl
    from anabranch.client import AnabranchClient
    from anabranch.model.merging import MergeRequest
    from anabranch.model.requests import DecisionRequest, GroupDecisionRequest

T = TypeVar("T")

TOKEN_SECONDS: Final = 1_800.0
"""How old a minted token may be: half of what it lives."""

REMEMBERED_SECONDS: Final = 20.0
"""For how long it holds what kubectl said of namespaces and rights: a page must not wait for kubectl each time."""

TRIES: Final = 4
"""The operator writes the status of a job while somebody reviews it; that is no other reviewer."""


class KubectlDesk:
    """Reads and decides for the person whose kubeconfig it is.

    Args:
        connection: How the commands reach cluster and API.
        clock: Seconds, monotonic.
    """

    def __init__(self, connection: Connection, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._known: dict[Any, tuple[float, Any]] = {}
        self._client: AnabranchClient | None = None
        self._made_at = 0.0
        self._making = asyncio.Lock()
        self.person = connection.kubectl.username()

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[AnabranchClient]:
        """The API, with a token that lives for a while yet."""
        async with self._making:
            if self._client is None or self._clock() - self._made_at > TOKEN_SECONDS:
                # The old one is left to requests under way, and goes with the last of them.
                self._client = await asyncio.to_thread(self._connection.client)
                self._made_at = self._clock()
        try:
            yield self._client
        except UnauthenticatedError:
            self._client = None
            raise

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def namespaces(self) -> Sequence[str]:
        """The namespace that was named, else all that have a Baseline, else the context's own."""
        if namespace := self._connection.kubectl.namespace:
            return [namespace]
        return await self._remembered("namespaces", self._all_namespaces)

    async def agents_namespaces(self) -> Sequence[str]:
        """All namespaces with a Branch, where the person may list them."""
        return await self._remembered("agents", self._with_branches)

    async def may_declare(self, namespace: str) -> bool:
        """Whether the person may patch Baselines."""

        async def ask() -> bool:
            return await asyncio.to_thread(self._connection.kubectl.allowed, "patch", "baselines", namespace=namespace)

        return await self._remembered(("may declare", namespace), ask)

    async def may_decide(self, namespace: str) -> bool:
        """Whether the person holds the grant to decide, and may change jobs."""

        async def ask() -> bool:
            kubectl = self._connection.kubectl
            answers = await asyncio.gather(
                asyncio.to_thread(kubectl.allowed, "update", "consolidationjobs", "review", namespace=namespace),
                asyncio.to_thread(kubectl.allowed, "patch", "consolidationjobs", namespace=namespace),
            )
            return all(answers)

        return await self._remembered(("may decide", namespace), ask)

    async def decide(self, namespace: str, job: str, decision: DecisionRequest, *, heard: Iterable[Voice]) -> None:
        """Put a decision into the job's ``spec.reviews``, unless something has changed since the person looked."""
        async with self.client() as client:
            voices = await noted(client, namespace, job, decision)
        await asyncio.to_thread(self._note, namespace, job, decision, set(heard), voices)

    async def merge(self, namespace: str, job: str, merge: MergeRequest) -> None:
        """Upload the text, and put the merge into the job's ``spec.reviews`` under the person's name."""
        async with self.client() as client:
            digest = await merging.put_draft(client, namespace, job, merge.content)
        made = merging.entry(digest, merge.inputs, merge.base_revision, record=merge.with_record)
        await asyncio.to_thread(self._claim, namespace, job, made)

    def _claim(self, namespace: str, job: str, made: dict[str, Any]) -> None:
        self._write(namespace, lambda kubectl: merging.claim(kubectl, job, made, reviewer=self.person))

    async def decide_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        """Put a decision on a group into the job's ``spec.reviews``, unless the group is another by now."""
        async with self.client() as client:
            found = {group.group_id: group for group in await client.groups(namespace, job)}
        group = found.get(decision.group_id)
        if group is None:
            raise NotFoundError("Nothing of the group waits in this job any more.", hint="Go back to the queue.")
        if group.digest != decision.digest:
            raise ConflictError(
                "The group has other candidates, or records, than you saw.",
                hint="Look again, and decide on what you see.",
            )
        if decision.action == "accept" and not group.acceptable:
            raise ConflictError(
                "The group has conflicts, or several candidates for a key.",
                hint="Accept those that you mean one by one.",
            )
        await asyncio.to_thread(self._note_group, namespace, job, decision)

    def _note_group(self, namespace: str, job: str, decision: GroupDecisionRequest) -> None:
        entry = {"groupId": decision.group_id, "digest": decision.digest, "action": decision.action}
        if decision.reason:
            entry["reason"] = decision.reason

        def attempt(kubectl: Kubectl) -> None:
            resource = kubectl.get("consolidationjobs", job)
            note(kubectl, job, [], groups=[entry], reviewer=self.person, resource=resource)

        self._write(namespace, attempt)

    def _note(self, namespace: str, job: str, decision: DecisionRequest, heard: set[Voice], voices: set[Voice]) -> None:
        def attempt(kubectl: Kubectl) -> None:
            resource = kubectl.get("consolidationjobs", job)
            check_heard(voices | _standing(resource, decision.candidate_id), heard, person=self.person)
            note(kubectl, job, [_entry(decision)], reviewer=self.person, resource=resource)

        self._write(namespace, attempt)

    def _write(self, namespace: str, attempt: Callable[[Kubectl], None]) -> None:
        """Write into a job, again where somebody else has written meanwhile, and see that reviews are guarded."""
        kubectl = replace(self._connection.kubectl, namespace=namespace)
        for number in range(1, TRIES + 1):
            try:
                attempt(kubectl)
            except DecidedMeanwhileError:  # which trying again does not change
                raise
            except ConflictError:
                if number == TRIES:
                    raise
            else:
                break
        check_guard(replace(self._connection, kubectl=kubectl))

    async def _all_namespaces(self) -> list[str]:
        return await self._with("baselines") or [self._connection.namespace]

    async def _with_branches(self) -> list[str]:
        return await self._with("branches")

    async def _with(self, kind: str) -> list[str]:
        """All namespaces with an object of a kind; none where the person may not list them."""
        kubectl = replace(self._connection.kubectl, namespace=None)
        try:
            found = await asyncio.to_thread(kubectl.get, kind, everywhere=True)
        except ForbiddenError:
            return []
        return sorted({item["metadata"]["namespace"] for item in found})

    async def _remembered(self, key: Any, ask: Callable[[], Awaitable[T]]) -> T:
        at, value = self._known.get(key, (-REMEMBERED_SECONDS, None))
        if self._clock() - at > REMEMBERED_SECONDS:
            value = await ask()
            self._known[key] = (self._clock(), value)
        answer: T = value
        return answer


def _standing(resource: dict[str, Any], candidate_id: str) -> set[Voice]:
    """What a job's resource has of a candidate: the operator may not have noted it yet."""
    return {
        Voice(entry["reviewer"], each["action"])
        for entry in take(resource, "spec.reviews") or ()
        for each in entry["decisions"]
        if each["candidateId"] == candidate_id
    }


def _entry(decision: DecisionRequest) -> dict[str, Any]:
    """A decision in the form that ``spec.reviews`` has."""
    return {
        "candidateId": decision.candidate_id,
        "contentHash": decision.content_hash,
        "baseRevision": decision.base_revision,
        "action": decision.action,
        **({"reason": decision.reason} if decision.reason else {}),
        **({"hold": decision.hold} if decision.hold else {}),
    }
