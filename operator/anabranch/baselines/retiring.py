"""Before an installation goes: nothing of it may hold a Baseline or a namespace that somebody deletes afterwards.

The finalizer of a Baseline whose data goes with it is taken off by an operator. When there is none any more, deleting
such a Baseline, or its namespace, would hang for ever. So the operator is stopped first (it would put the finalizer
back), and then the finalizer is taken off everywhere. No data is deleted: what a Baseline without an operator leaves
behind stays in the database.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

from anabranch.baselines.finalizer import FINALIZER
from anabranch.kube.errors import ObjectNotFoundError, StaleObjectError
from anabranch.kube.finalizers import set_finalizer
from anabranch.kube.kinds import BASELINE, DEFINITION, DEPLOYMENT, LEASE, POD
from anabranch.manifests import LEASE as LEASE_NAME
from anabranch.model.errors import AnabranchError, ConflictError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anabranch.kube.client import KubeClient

OPERATOR_PODS: Final = "app.kubernetes.io/name=anabranch,app.kubernetes.io/component=operator"
_PAUSE_SECONDS: Final = 1.0


class DeletionUnderWayError(ConflictError):
    """A Baseline is being deleted with its data, which only an operator can finish."""

    code = "DeletionUnderWay"


async def retire(  # noqa: PLR0913  (all but the API server by keyword)
    kube: KubeClient,
    *,
    namespace: str,
    deployment: str,
    seconds: float,
    say: Callable[[str], None],
    stores: Sequence[str] = (),
) -> None:
    """Stop the operators, take their finalizer off every Baseline, and delete their Leases. Safe to repeat.

    Args:
        kube: The API server, as an account that may do both.
        namespace: The system namespace.
        deployment: The operator's; those of other stores have their names behind it.
        seconds: How long its pods may take to end.
        say: Is told what was done.
        stores: Those besides the default one.

    Raises:
        DeletionUnderWayError: If data is being deleted.
        UnavailableError: If the operator does not end, or the API server cannot be reached. As after any error, the
            operator runs as before, if that could still be said.
    """
    if await kube.find(DEFINITION, name=f"{BASELINE.plural}.{BASELINE.group}") is None:
        say("There are no Baselines: their kind is not defined any more.")
        await _forget_leaders(kube, namespace=namespace, stores=stores)
        return
    await _refuse_deletions(kube)
    deployments = [deployment, *(f"{deployment}-{store}" for store in stores)]
    replicas: dict[str, int] = {}
    try:
        for each in deployments:
            replicas[each] = await _scale(kube, 0, namespace=namespace, deployment=each)
        await _ended(kube, namespace=namespace, seconds=seconds)
        await _refuse_deletions(kube)  # somebody may have deleted one while the operator ended
        say("The operator is stopped.")
        await _release_all(kube, say=say)
    except AnabranchError:
        # What stays must not stay without an operator. Where an earlier attempt was cut short there was none.
        for each, before in replicas.items():
            with contextlib.suppress(AnabranchError):
                await _scale(kube, max(before, 1), namespace=namespace, deployment=each)
        raise
    await _forget_leaders(kube, namespace=namespace, stores=stores)


async def _release_all(kube: KubeClient, *, say: Callable[[str], None]) -> None:
    async for body in kube.items(BASELINE):
        metadata = body["metadata"]
        if FINALIZER in metadata.get("finalizers", ()):
            await _release(kube, namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
            say(f"Baseline {metadata['namespace']}/{metadata['name']} goes by itself now; its data stays.")


async def _refuse_deletions(kube: KubeClient) -> None:
    going = [
        f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        async for body in kube.items(BASELINE)
        if body["metadata"].get("deletionTimestamp") and FINALIZER in body["metadata"].get("finalizers", ())
    ]
    if going:
        raise DeletionUnderWayError(
            f"The data of {', '.join(going)} is being deleted.",
            hint="Uninstall when it is gone. To leave it undone, set spec.deletionPolicy to Retain.",
        )


async def _release(kube: KubeClient, *, namespace: str, name: str, uid: str) -> None:
    where = {"namespace": namespace, "name": name, "uid": uid}
    while True:
        try:
            await set_finalizer(kube, BASELINE, **where, finalizer=FINALIZER, present=False)
        except StaleObjectError:
            await asyncio.sleep(_PAUSE_SECONDS)  # somebody changed it between reading and writing
        else:
            return


async def _forget_leaders(kube: KubeClient, *, namespace: str, stores: Sequence[str]) -> None:
    """Delete the Leases: operators made them, so they belong to no release and would stay."""
    for name in (LEASE_NAME, *(f"{LEASE_NAME}-{store}" for store in stores)):
        with contextlib.suppress(ObjectNotFoundError):
            await kube.call("DELETE", LEASE.path(namespace=namespace, name=name))


async def _scale(kube: KubeClient, replicas: int, *, namespace: str, deployment: str) -> int:
    """Set how many operators run; how many it was before. None run, and none will, where there is no Deployment."""
    path = DEPLOYMENT.path(namespace=namespace, name=deployment, subresource="scale")
    try:
        before = await kube.call("GET", path)
    except ObjectNotFoundError:
        return 0
    patch = {"spec": {"replicas": replicas}}
    await kube.call("PATCH", path, body=patch, content_type="application/merge-patch+json")
    return int(before["spec"].get("replicas", 0))


async def _ended(kube: KubeClient, *, namespace: str, seconds: float) -> None:
    """Wait until no pod of the operator is left.

    Raises:
        UnavailableError: If one is, when the time is over.
    """
    now = asyncio.get_running_loop().time
    deadline = now() + seconds
    while True:
        left = [
            body["metadata"]["name"]
            async for body in kube.items(POD, namespace=namespace, label_selector=OPERATOR_PODS)
        ]
        if not left:
            return
        if now() >= deadline:
            raise UnavailableError(f"Still there: {', '.join(left)}.", hint="Delete what holds them, then try again.")
        await asyncio.sleep(_PAUSE_SECONDS)
