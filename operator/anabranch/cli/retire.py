"""``anabranch retire``: what the chart runs before it is uninstalled."""

from __future__ import annotations

import asyncio

import click

from anabranch.baselines import retiring
from anabranch.kube.client import KubeClient
from anabranch.manifests import DEFAULT_NAMESPACE, OPERATOR_ACCOUNT


@click.command()
@click.option("--kubeconfig", metavar="PATH", help="[default: $KUBECONFIG, else the pod's ServiceAccount]")
@click.option(
    "--system-namespace",
    metavar="NAME",
    envvar="ANABRANCH_SYSTEM_NAMESPACE",
    show_envvar=True,
    default=DEFAULT_NAMESPACE,
    show_default=True,
)
@click.option("--deployment", metavar="NAME", default=OPERATOR_ACCOUNT, show_default=True, help="Of the operator.")
@click.option("--store", "stores", metavar="NAME", multiple=True, help="One besides the default; repeatable.")
@click.option("--wait", metavar="SECONDS", default=120, show_default=True, help="For the operator's end.")
def command(
    *, kubeconfig: str | None, system_namespace: str, deployment: str, stores: tuple[str, ...], wait: int
) -> None:
    """Stop the operator and take its finalizer off every Baseline, so that nothing hangs when it is gone.

    It deletes no data. Where the data of a Baseline is being deleted it refuses, and the operator runs on.
    """
    asyncio.run(_retire(kubeconfig, namespace=system_namespace, deployment=deployment, seconds=wait, stores=stores))


async def _retire(
    kubeconfig: str | None, *, namespace: str, deployment: str, seconds: float, stores: tuple[str, ...]
) -> None:
    kube = await KubeClient.open(kubeconfig)
    try:
        await retiring.retire(
            kube, namespace=namespace, deployment=deployment, seconds=seconds, say=click.echo, stores=stores
        )
    finally:
        await kube.close()
