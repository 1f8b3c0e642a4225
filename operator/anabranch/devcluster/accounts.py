"""ServiceAccounts for processes outside the cluster: a kubeconfig each, with a token that never runs out.

Operator and API run on the host in the demo and the tests, under exactly the rights of their ServiceAccounts: a missing
right shows there. In a pod the kubelet renews the token file; here :func:`keep_fresh` does.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.devcluster.cluster import Cluster
from anabranch.devcluster.errors import DevclusterError

if TYPE_CHECKING:
    from collections.abc import Sequence

LIFE = timedelta(hours=1)
"""How long a token is asked to last; the API server may shorten that."""

RETRY = timedelta(seconds=2)
"""How soon a renewal that failed is tried again."""


@dataclass(frozen=True)
class Token:
    """A ServiceAccount's token.

    Attributes:
        value: What goes after ``Bearer``.
        expires_at: When it ends.
    """

    value: str
    expires_at: datetime


@dataclass(frozen=True)
class Account:
    """A ServiceAccount as a process outside the cluster uses it.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        folder: Where its kubeconfig and its token are.
    """

    namespace: str
    name: str
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig; it names the token file instead of holding a token."""
        return self.folder / f"{self.namespace}.{self.name}.kubeconfig"

    @property
    def token_file(self) -> Path:
        """The file that holds the token of the moment."""
        return self.folder / f"{self.namespace}.{self.name}.token"


def mint(cluster: Cluster, *, namespace: str, name: str, audience: str | None = None, life: timedelta = LIFE) -> Token:
    """A new token of a ServiceAccount, by TokenRequest.

    Args:
        cluster: Where, as its admin.
        namespace: The ServiceAccount's namespace.
        name: The ServiceAccount's name.
        audience: Whom the token is for; the API server itself unless given.
        life: How long it is to last, at least ten minutes.

    Raises:
        DevclusterError: The API server refused, for example since there is no such ServiceAccount.
    """
    arguments = [f"--namespace={namespace}", f"--duration={int(life.total_seconds())}s", "--output=json"]
    if audience:
        arguments.append(f"--audience={audience}")
    status = json.loads(cluster.kubectl("create", "token", name, *arguments))["status"]
    return Token(value=status["token"], expires_at=datetime.fromisoformat(status["expirationTimestamp"]))


def set_up(cluster: Cluster, *, namespace: str, name: str, folder: Path) -> Account:
    """Writes the kubeconfig and the first token of a ServiceAccount."""
    folder.mkdir(parents=True, exist_ok=True)
    account = Account(namespace=namespace, name=name, folder=folder)
    renew(cluster, account)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": _place(cluster, cluster.kubeconfig.stat().st_mtime_ns)}],
        "users": [{"name": name, "user": {"tokenFile": str(account.token_file)}}],
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": name, "namespace": namespace}}],
        "current-context": name,
    }
    replace(account.kubeconfig, json.dumps(config, indent=1))
    return account


@functools.lru_cache(maxsize=8)
def _place(cluster: Cluster, _changed_at: int) -> Any:
    """Where a cluster's API server is, and who signed its certificate: asked once for each of many accounts."""
    view = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json"))
    return view["clusters"][0]["cluster"]


def renew(cluster: Cluster, account: Account, *, life: timedelta = LIFE) -> Token:
    """Puts a new token into an account's file; whoever reads it sees the old one or the new one, never a part."""
    token = mint(cluster, namespace=account.namespace, name=account.name, life=life)
    replace(account.token_file, token.value)
    return token


def keep_fresh(
    cluster: Cluster, accounts: Sequence[Account], *, stop: threading.Event, every: timedelta | None = None
) -> None:
    """Renews the tokens of accounts until told to stop, each long before it runs out.

    A renewal that fails is tried again soon: the API server may be restarting, and half a token's life is left.

    Args:
        cluster: Where, as its admin.
        accounts: Whose.
        stop: Ends the loop, at once.
        every: How often; half a token's life unless given.
    """
    wait = timedelta(0)
    while not stop.wait(wait.total_seconds()):
        try:
            soonest = min(renew(cluster, account).expires_at for account in accounts)
        except DevclusterError as error:
            print(f"{datetime.now(UTC):%FT%TZ} {error}", file=sys.stderr, flush=True)
            wait = RETRY
        else:
            wait = every or max((soonest - datetime.now(UTC)) / 2, RETRY)


def write_orders(file: Path, cluster: Cluster, accounts: Sequence[Account]) -> None:
    """Writes down for :func:`main` which accounts to keep fresh, and where."""
    orders = {"cluster": asdict(cluster), "accounts": [asdict(account) for account in accounts]}
    replace(file, json.dumps(orders, default=str, indent=1))


def main(file: Path) -> None:
    """Keeps the accounts of an orders file fresh, until the process is ended."""
    orders = json.loads(file.read_text())
    cluster = Cluster.restore(orders["cluster"])
    accounts = [
        Account(namespace=each["namespace"], name=each["name"], folder=Path(each["folder"]))
        for each in orders["accounts"]
    ]
    keep_fresh(cluster, accounts, stop=threading.Event())


def replace(path: Path, text: str) -> None:
    """Writes a file that only its owner may read, all at once."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.touch(mode=0o600)
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
