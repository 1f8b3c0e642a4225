"""How a stack comes to be: cluster, Postgres and accounts are made, the database gets its schema, and all is started.

Each step finds what it made before and leaves that as it is, so that the same call starts a stack, mends one of which
something has ended, and brings one of an older release to this one.
"""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from subprocess import PIPE, STDOUT
from typing import TYPE_CHECKING, Any

import yaml

from anabranch import manifests
from anabranch.devcluster import accounts, children, choose, databases, ephemeral, folders, installation
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.processes import Processes, Program
from anabranch.devcluster.stack import ENTRY_POINT, ROLES, TEMPORARY, Secrets, Stack, load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from anabranch.devcluster.folders import Say


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a stack is to be.

    Attributes:
        owner: Whose it is, on a cluster and a server of someone else: only what has the same owner is changed there.
        durable: Whether its data must survive the end of the machine.
        audit: Whether a local control plane logs each request.
        namespace: The system namespace.
        config: The operator's configuration file, as a value: its named repositories, sources, models and backup
            targets. None: as it was, which is empty at first.
    """

    owner: str = "dev"
    durable: bool = False
    audit: bool = False
    namespace: str = manifests.DEFAULT_NAMESPACE
    config: Mapping[str, Any] | None = None


def up(folder: Path, *, options: Options | None = None, say: Say = folders.silent) -> Stack:
    """Starts a folder's stack, or what of it does not run, and returns when operator and API are ready.

    It blocks for some ten seconds, and for minutes where the control plane is to be built first. What was started stays
    when it fails: :func:`anabranch.devcluster.stack.load` gives it, to look at or to take down.

    Args:
        folder: Where it keeps everything.
        options: How it is to be; a stack that exists keeps its namespace and its owner.
        say: Takes progress.

    Raises:
        DevclusterError: Something did not start; with its own words.
    """
    folder, options = folder.resolve(), options or Options()
    with folders.exclusive(folder):
        known = load(folder)
        with ThreadPoolExecutor() as executor:
            server = executor.submit(choose.postgres_server, folder / "postgres", durable=options.durable, say=say)
            cluster = choose.cluster(folder / "cluster", durable=options.durable, audit=options.audit, say=say)
        stack = Stack(
            folder=folder,
            cluster=cluster,
            server=server.result(),
            namespace=known.namespace if known else options.namespace,
            owner=known.owner if known else options.owner,
            secrets=known.secrets if known else Secrets(),
        )
        stack.save()
        _configure(stack, options.config)
        say("preparing the database; installing the custom resources, roles and policies")
        with ThreadPoolExecutor() as executor:
            prepared = executor.submit(_prepare_database, stack)
            others = manifests.install(namespace=stack.namespace, audience=stack.audience)
            installation.install(stack.cluster, owner=stack.owner, definitions=manifests.crds(), others=others)
            _keep_accounts(stack)
        prepared.result()
        say("starting operator and API")
        stack.start()
        say(f"the API answers on {stack.api_url}")
        return stack


@contextmanager
def temporary(*, options: Options | None = None, say: Say = folders.silent) -> Iterator[Stack]:
    """A stack for the length of a block; afterwards nothing of it is left, here or on a cluster of someone else."""
    with ephemeral.folder("anabranch-stack-") as folder:
        try:
            yield up(folder, options=replace(options or Options(), owner=TEMPORARY), say=say)
        finally:
            if started := load(folder):
                started.down(say=say)


def _configure(stack: Stack, config: Mapping[str, Any] | None) -> None:
    """Writes the operator's configuration; an operator that runs with another one ends, and starts anew with it."""
    path = stack.folder / "config.yaml"
    there = path.read_text() if path.exists() else None
    if config is None and there is not None:
        return
    text = yaml.safe_dump(dict(config or {}))
    if text != there:
        path.write_text(text)
        stack.stop("operator")


def _prepare_database(stack: Stack) -> None:
    """Makes the database and its roles, and brings it to the newest schema, by the command that people use."""
    databases.blocking(databases.claim_roles(stack.server.dsn, ROLES, owner=stack.owner))
    databases.blocking(databases.create(stack.server.dsn, stack.secrets.database, owner=stack.owner))
    environment = children.environment(
        ANABRANCH_MIGRATE_DSN=stack.admin_dsn,
        ANABRANCH_MIGRATE_PASSWORD=stack.secrets.migrate_password,
        ANABRANCH_OPERATOR_PASSWORD=stack.secrets.operator_password,
        ANABRANCH_API_PASSWORD=stack.secrets.api_password,
    )
    command = children.command(ENTRY_POINT, "migrate", "--roles-from-env")
    done = subprocess.run(command, check=False, stdout=PIPE, stderr=STDOUT, text=True, env=environment)
    if done.returncode:
        raise DevclusterError(f"`anabranch migrate` failed: {done.stdout.strip()}")


def _keep_accounts(stack: Stack) -> None:
    """Gives operator and API their identities, and keeps the tokens fresh for as long as the stack runs."""
    folder = stack.folder / "accounts"
    made = [
        accounts.set_up(stack.cluster, namespace=stack.namespace, name=name, folder=folder)
        for name in (manifests.OPERATOR_ACCOUNT, manifests.API_ACCOUNT)
    ]
    accounts.write_orders(folder / "orders.json", stack.cluster, made)
    command = children.command(accounts.__name__, folder / "orders.json")
    Processes(stack.folder).start("token-keeper", Program(command, env=children.environment()))
