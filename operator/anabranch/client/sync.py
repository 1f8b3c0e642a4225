"""The client and the worker for programs without an event loop: the same calls, which wait.

One loop runs in a thread for each client, and a worker is opened on its client's. The signatures are those of the
asynchronous calls, taken from them, so that a type checker knows both alike.
"""

from __future__ import annotations

import contextlib
import functools
import os
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from anabranch.client.client import AnabranchClient, settings
from anabranch.client.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

    from anabranch.client.agent_events import OnEvent
    from anabranch.client.worker import Follow
    from anabranch.model.requests import BranchRequest

T = TypeVar("T")
P = ParamSpec("P")

_END: Final = object()


class _Waiting:
    """What calls into an event loop in another thread."""

    _portal: BlockingPortal
    _target: Any


def _call(method: Callable[Concatenate[Any, P], Awaitable[T]]) -> Callable[Concatenate[Any, P], T]:
    """An asynchronous call as one that waits for its result."""

    @functools.wraps(method)
    def call(self: _Waiting, *arguments: P.args, **options: P.kwargs) -> T:
        return self._portal.call(functools.partial(method, self._target, *arguments, **options))

    return call  # type: ignore[return-value]  # what a subclass's instance is bound to


def _each(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """An asynchronous iterator as one that waits for each item."""

    @functools.wraps(method)
    def call(self: _Waiting, *arguments: P.args, **options: P.kwargs) -> Iterator[T]:
        items: Any = self._portal.call(functools.partial(_begun, method, self._target, *arguments, **options))
        try:
            while (item := self._portal.call(anext, items, _END)) is not _END:
                yield item
        finally:
            self._portal.call(items.aclose)

    return call  # type: ignore[return-value]  # what a subclass's instance is bound to


async def _begun(method: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """What a function gives, called inside the loop."""
    return method(*arguments, **options)


class SyncClient(_Waiting):
    """The calls of `AnabranchClient`, which wait; a context manager.

    Used as::

        with SyncClient("https://anabranch.example", token_file=Path("/run/secrets/token")) as client:
            fact = client.record("team", "handbook", "deploy/rollback")

    Args:
        url: Of the API, without a path.
        token: A token of the cluster for the installation's audience.
        token_file: Instead: where the token is, read anew for each request.
        timeout: Seconds to wait for a connection, and between two pieces of an answer.
    """

    def __init__(
        self, url: str, *, token: str | None = None, token_file: Path | None = None, timeout: float = 30.0
    ) -> None:
        self._make = functools.partial(AnabranchClient, url, token=token, token_file=token_file, timeout=timeout)
        self._exits = contextlib.ExitStack()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """A client as a pod's environment describes it (see `AnabranchClient.from_environment`)."""
        return cls(**settings(environment))

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as exits:
            self._portal = exits.enter_context(start_blocking_portal())
            self._target = self._portal.call(_begun, self._make)
            exits.callback(self._portal.call, self._target.close)
            self._exits = exits.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    @contextlib.contextmanager
    def worker(
        self,
        path: Path,
        *,
        namespace: str,
        branch: BranchRequest | str,
        follow: Follow | None = None,
        on_event: OnEvent | None = None,
    ) -> Iterator[SyncWorker]:
        """The worker of a run, for the length of a block (see `Worker.open`)."""
        opened = functools.partial(
            Worker.open, path, self._target, namespace=namespace, branch=branch, follow=follow, on_event=on_event
        )
        worker = SyncWorker(self._portal, self._portal.call(opened))
        try:
            yield worker
        finally:
            worker.close()

    baselines = _each(AnabranchClient.baselines)
    baseline = _call(AnabranchClient.baseline)
    manifests = _each(AnabranchClient.manifests)
    manifest = _call(AnabranchClient.manifest)
    records = _each(AnabranchClient.records)
    record = _call(AnabranchClient.record)
    diff = _each(AnabranchClient.diff)
    upload_archive = _call(AnabranchClient.upload_archive)
    search = _call(AnabranchClient.search)
    quality = _call(AnabranchClient.quality)
    trace = _call(AnabranchClient.trace)
    retract = _call(AnabranchClient.retract)
    retraction = _call(AnabranchClient.retraction)
    retractions = _each(AnabranchClient.retractions)
    export = _call(AnabranchClient.export)
    signature = _call(AnabranchClient.signature)
    events = _call(AnabranchClient.events)
    follow = _each(AnabranchClient.follow)

    branches = _each(AnabranchClient.branches)
    branch = _call(AnabranchClient.branch)
    create_branch = _call(AnabranchClient.create_branch)
    private_records = _each(AnabranchClient.private_records)
    get_private = _call(AnabranchClient.get_private)
    put_private = _call(AnabranchClient.put_private)
    delete_private = _call(AnabranchClient.delete_private)
    view = _call(AnabranchClient.view)
    search_branch = _call(AnabranchClient.search_branch)
    base_revision = _call(AnabranchClient.base_revision)
    put_evidence = _call(AnabranchClient.put_evidence)
    get_evidence = _call(AnabranchClient.get_evidence)
    submit_batch = _call(AnabranchClient.submit_batch)
    submit = _call(AnabranchClient.submit)
    submit_bulk = _call(AnabranchClient.submit_bulk)
    batch = _call(AnabranchClient.batch)
    batches = _each(AnabranchClient.batches)
    complete = _call(AnabranchClient.complete)
    completion = _call(AnabranchClient.completion)

    presence = _call(AnabranchClient.presence)
    peers = _each(AnabranchClient.peers)
    feed_place = _call(AnabranchClient.feed_place)
    save_cursor = _call(AnabranchClient.save_cursor)
    put_checkpoint = _call(AnabranchClient.put_checkpoint)
    checkpoint = _call(AnabranchClient.checkpoint)
    checkpoints = _each(AnabranchClient.checkpoints)
    latest_checkpoint = _call(AnabranchClient.latest_checkpoint)
    rebase_conflicts = _call(AnabranchClient.rebase_conflicts)

    jobs = _each(AnabranchClient.jobs)
    job = _call(AnabranchClient.job)
    candidates = _each(AnabranchClient.candidates)
    cited_evidence = _call(AnabranchClient.cited_evidence)
    transitions = _call(AnabranchClient.transitions)
    reviews = _call(AnabranchClient.reviews)
    groups = _call(AnabranchClient.groups)
    review = _call(AnabranchClient.review)
    merge = _call(AnabranchClient.merge)
    merges = _call(AnabranchClient.merges)
    put_draft = _call(AnabranchClient.put_draft)

    memory = _call(AnabranchClient.memory)
    memory_section = _call(AnabranchClient.memory_section)
    memory_items = _call(AnabranchClient.memory_items)
    memory_history = _call(AnabranchClient.memory_history)
    system_exchanges = _call(AnabranchClient.system_exchanges)
    put_memory = _call(AnabranchClient.put_memory)
    delete_memory = _call(AnabranchClient.delete_memory)
    sync_memory = _call(AnabranchClient.sync_memory)
    post_exchange = _call(AnabranchClient.post_exchange)
    queued_events = _each(AnabranchClient.queued_events)
    claim_events = _call(AnabranchClient.claim_events)
    ack_event = _call(AnabranchClient.ack_event)
    fail_event = _call(AnabranchClient.fail_event)
    agent_events = _each(AnabranchClient.agent_events)
    handle_events = _call(AnabranchClient.handle_events)


class SyncWorker(_Waiting):
    """The calls of `Worker`, which wait; `SyncClient.worker` opens one.

    Args:
        portal: Into the loop that the worker runs in.
        worker: The worker.
    """

    def __init__(self, portal: BlockingPortal, worker: Worker) -> None:
        self._portal = portal
        self._target = worker

    @property
    def asynchronous(self) -> Worker:
        """The worker itself, for what runs in its loop, and is begun there by `call`."""
        worker: Worker = self._target
        return worker

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function inside the worker's loop, as what belongs to that loop demands."""
        return self._portal.call(functools.partial(_begun, function, *arguments))

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Stay in step for the length of a block (see `Worker.running`)."""
        with self._portal.wrap_async_context_manager(self._target.running()):
            yield self

    @property
    def follow(self) -> Follow | None:
        """What becomes of accepted changes, and None: what the Branch says. It can be set at any time."""
        return self.asynchronous.follow

    @follow.setter
    def follow(self, follow: Follow | None) -> None:
        self.asynchronous.follow = follow

    read = _call(Worker.read)
    records = _each(Worker.records)
    conflicts = _call(Worker.conflicts)
    write = _call(Worker.write)
    delete = _call(Worker.delete)
    submit = _call(Worker.submit)
    complete = _call(Worker.complete)
    refused = _call(Worker.refused)
    retry = _call(Worker.retry)
    withdraw = _call(Worker.withdraw)
    outcome = _call(Worker.outcome)
    checkpoint = _call(Worker.checkpoint)
    restore = _call(Worker.restore)
    scratch_put = _call(Worker.scratch_put)
    scratch_get = _call(Worker.scratch_get)
    scratch_delete = _call(Worker.scratch_delete)
    held = _call(Worker.held)
    apply = _call(Worker.apply)
    status = _call(Worker.status)
    sync = _call(Worker.sync)
    run = _call(Worker.run)
    rebase = _call(Worker.rebase)
    close = _call(Worker.close)
