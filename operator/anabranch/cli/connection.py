"""How a command reaches the HTTP API: where it is, and whose token it shows.

An agent has its pod's token in a file. A person has no token for our audience, but may mint one of a ServiceAccount
that they are allowed to (``--service-account``): it lives for an hour, and reads with that account's grants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from anabranch.cli.kubectl import Kubectl
from anabranch.manifests import DEFAULT_NAMESPACE, default_audience
from anabranch.model.errors import InvalidInputError, UnauthenticatedError

if TYPE_CHECKING:
    from anabranch.client import AnabranchClient

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

POD_NAMESPACE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True, kw_only=True)
class Connection:
    """What a command needs to call the API.

    Attributes:
        kubectl: The person's way to the cluster, for what goes through the API server.
        url: Of the API; None: not said.
        token: Shown as it is.
        token_file: Read anew at each use: kubelet replaces it.
        service_account: Mint a token of this ServiceAccount by kubectl: ``name`` or ``namespace/name``.
        audience: Of tokens for the API.
    """

    kubectl: Kubectl
    url: str | None = None
    token: str | None = None
    token_file: Path | None = None
    service_account: str | None = None
    audience: str = default_audience(DEFAULT_NAMESPACE)

    @property
    def configured(self) -> bool:
        """Whether the API can be called at all."""
        return self.url is not None and any((self.token, self.token_file, self.service_account))

    @property
    def namespace(self) -> str:
        """The namespace that calls go to: what was given, else the pod's own, else the kubeconfig's."""
        if self.kubectl.namespace is None and POD_NAMESPACE.exists():
            return POD_NAMESPACE.read_text().strip()
        return self.kubectl.current_namespace()

    def client(self) -> AnabranchClient:
        """A client for the API; enter it with ``async with``.

        Raises:
            InvalidInputError: If nothing says where the API is.
            UnauthenticatedError: If nothing says whose token to show.
        """
        from anabranch.client import AnabranchClient  # noqa: PLC0415  (httpx costs a quarter of a second)

        if self.url is None:
            raise InvalidInputError(
                "The address of the API is not known.", hint="Give --url, or set ANABRANCH_URL; `make dev` prints one."
            )
        if self.service_account:
            namespace, _, name = self.service_account.rpartition("/")
            token = self.kubectl.token(name, namespace=namespace or self.namespace, audience=self.audience)
            return AnabranchClient(self.url, token=token)
        if self.token is None and self.token_file is None:
            raise UnauthenticatedError(
                "There is no token to show to the API.",
                hint="Give --service-account NAME to mint one by kubectl, or --token-file, or set ANABRANCH_TOKEN.",
            )
        return AnabranchClient(self.url, token=self.token, token_file=self.token_file)


def connection_options(function: Decorated) -> Decorated:
    """Add what `Connection` is made of to a command, kubectl's options included; arrives as ``connection``."""

    def keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        given = ctx.meta.setdefault("anabranch.connection", {})
        given[parameter.name] = value
        cluster = tuple(f"--{name}={given[name]}" for name in ("context", "kubeconfig") if given.get(name))
        rest = {name: given[name] for name in ("url", "token", "token_file", "service_account") if given.get(name)}
        audience = {"audience": given["audience"]} if given.get("audience") else {}
        ctx.params["connection"] = Connection(kubectl=Kubectl(given.get("namespace"), cluster), **rest, **audience)

    for option in (
        click.option("--kubeconfig", expose_value=False, callback=keep, help="Path.  [default: as kubectl]"),
        click.option("--context", expose_value=False, callback=keep, help="Of the kubeconfig."),
        click.option(
            "--audience", envvar="ANABRANCH_AUDIENCE", expose_value=False, callback=keep, help="Of minted tokens."
        ),
        click.option(
            "--service-account", expose_value=False, callback=keep, help="Mint a token of this one: [NAMESPACE/]NAME."
        ),
        click.option(
            "--token-file", type=click.Path(path_type=Path), envvar="ANABRANCH_TOKEN_FILE", expose_value=False,
            callback=keep, help="Read the token from here.",
        ),
        click.option("--token", envvar="ANABRANCH_TOKEN", expose_value=False, callback=keep, help="The token itself."),
        click.option("--url", envvar="ANABRANCH_URL", expose_value=False, callback=keep, help="Of the API."),
        click.option("-n", "--namespace", expose_value=False, callback=keep, help="[default: the context's]"),
    ):  # fmt: skip
        function = option(function)
    return function
