"""How a command reaches the HTTP API: where it is, and whose token it shows.

An agent has its pod's token in a file. A person has no token for our audience, but may mint one of a ServiceAccount
that they are allowed to (``--service-account``): it lives for an hour, and reads with that account's grants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from anabranch.cli.kubectl import Kubectl
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
        audience: Of minted tokens; None: that of an installation in the default namespace.
        authority: Who signs the API's certificate, as PEM; None: whoever this machine trusts.
    """

    kubectl: Kubectl
    url: str | None = None
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    service_account: str | None = None
    audience: str | None = None
    authority: str | None = None

    @property
    def configured(self) -> bool:
        """Whether the API can be called at all."""
        return self.url is not None and any((self.token, self.token_file, self.service_account))

    @cached_property
    def namespace(self) -> str:
        """The namespace that calls go to: what was given, else the pod's own, else the kubeconfig's."""
        if self.kubectl.namespace is None and POD_NAMESPACE.exists():
            return POD_NAMESPACE.read_text().strip()
        return self.kubectl.current_namespace

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
            minted = self._minted(self.service_account)
            return AnabranchClient(self.url, token=minted, authority=self.authority)
        if self.token is None and self.token_file is None:
            raise UnauthenticatedError(
                "There is no token to show to the API.",
                hint="Give --service-account NAME to mint one by kubectl, or --token-file, or set ANABRANCH_TOKEN.",
            )
        return AnabranchClient(self.url, token=self.token, token_file=self.token_file, authority=self.authority)

    @property
    def installation(self) -> str:
        """The namespace of the installation, as far as its audience tells."""
        from anabranch.manifests import DEFAULT_NAMESPACE, default_audience  # noqa: PLC0415  (comes with pydantic)

        named = (self.audience or "").removeprefix(default_audience(""))
        return named if self.audience == default_audience(named) else DEFAULT_NAMESPACE

    def minted_audience(self) -> str:
        """The audience of minted tokens."""
        from anabranch.manifests import DEFAULT_NAMESPACE, default_audience  # noqa: PLC0415  (comes with pydantic)

        return self.audience or default_audience(DEFAULT_NAMESPACE)

    def _minted(self, service_account: str) -> str:
        namespace, _, name = service_account.rpartition("/")
        return self.kubectl.token(name, namespace=namespace or self.namespace, audience=self.minted_audience())


def cluster_options(function: Decorated) -> Decorated:
    """Add kubectl's options to a command that goes by kubectl alone; they arrive as ``connection``."""
    for add in (
        _option("--kubeconfig", metavar="PATH", help="[default: as kubectl]"),
        _option("--context", metavar="NAME", help="Of the kubeconfig."),
        _option("-n", "--namespace", metavar="NAME", help="[default: the context's]"),
    ):
        function = add(function)
    return function


def connection_options(function: Decorated) -> Decorated:
    """Add what a `Connection` is made of to a command, kubectl's options included; it arrives as ``connection``."""
    for add in (
        _option("--audience", metavar="NAME", envvar="ANABRANCH_AUDIENCE", help="Of minted tokens."),
        _option("--service-account", metavar="[NS/]NAME", help="Instead: mint one of this ServiceAccount by kubectl."),
        _option(
            "--token-file", metavar="PATH", type=click.Path(path_type=Path), envvar="ANABRANCH_TOKEN_FILE",
            help="Instead: where it is.",
        ),
        _option("--token", metavar="TOKEN", envvar="ANABRANCH_TOKEN", help="To show to the API."),
        _option("--url", metavar="URL", envvar="ANABRANCH_URL", help="Of the API."),
    ):  # fmt: skip
        function = add(function)
    return cluster_options(function)


def _option(*names: str, **settings: Any) -> Callable[[Decorated], Decorated]:
    return click.option(*names, expose_value=False, callback=_keep, show_envvar=True, **settings)


def _keep(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Take one option's value; the last one to come completes the connection."""
    given = ctx.meta.setdefault("anabranch.connection", {})
    given[parameter.name] = value
    cluster = tuple(f"--{name}={given[name]}" for name in ("context", "kubeconfig") if given.get(name))
    names = ("url", "token", "token_file", "service_account", "audience")
    api = {name: given[name] for name in names if given.get(name)}
    ctx.params["connection"] = Connection(kubectl=Kubectl(given.get("namespace"), cluster), **api)
