"""What the API is told when it starts: by its environment, so that one image serves every installation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from anabranch.identity.oidc import OidcSettings
from anabranch.manifests.install import DEFAULT_NAMESPACE, default_audience
from anabranch.model import stores
from anabranch.model.errors import InvalidInputError
from anabranch.model.found import SearchMode  # noqa: TC001  (as Path)

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_DRAIN_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Of one of several databases.

    Attributes:
        dsn: Of Postgres, as the role of the API.
        listen_dsn: A direct way to it, where ``dsn`` goes through a transaction pooler.
        standbys_dsn: Of its streaming standbys, for reads of what never changes; None: none are read.
    """

    dsn: str = field(repr=False)
    listen_dsn: str | None = field(default=None, repr=False)
    standbys_dsn: str | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one process of the API runs.

    Attributes:
        dsn: Of Postgres, as the role of the API.
        audience: Of this installation: what tokens must be meant for.
        cursor_keys: Secrets that cursors are sealed with; the first one seals, all open.
        host: Address to listen on.
        port: Port to listen on.
        standbys_dsn: Of the database's streaming standbys, for reads of what never changes; None: none are read.
        listen_dsn: A direct way to Postgres, where ``dsn`` goes through a transaction pooler.
        kubeconfig: Path of the kubeconfig; None: the usual places.
        drain: Seconds that it goes on answering after it was told to end: as long as balancers take to hear of it.
        tls: PEM files of the certificate and of its key; None: plain HTTP.
        health_host: Address of the inner port: /metrics, /healthz, /readyz.
        health_port: The inner port; 0: none.
        signing_key: PEM file of an Ed25519 key that manifests are signed with; None: they are not.
        oidc: Whose ID tokens are people's; None: nobody's.
        session_keys: Secrets that sessions of the pages are sealed with; the first one seals, all open.
        embedder: Makes vectors for searches by meaning (see `anabranch.search.embedding.load`); None: nobody does.
        search_mode: How it is searched unless a search says it; None: by meaning too, where there is an embedder.
        stores: Databases besides the default one, by the names that Baselines select them by.
        stores_wait: Seconds that those are waited for, at the start, that are not there.
    """

    dsn: str = field(repr=False)
    audience: str
    cursor_keys: tuple[bytes, ...] = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    standbys_dsn: str | None = field(default=None, repr=False)
    listen_dsn: str | None = field(default=None, repr=False)
    kubeconfig: str | None = None
    drain: float = 3.0
    tls: tuple[Path, Path] | None = None
    health_host: str = "127.0.0.1"
    health_port: int = 0
    signing_key: Path | None = None
    oidc: OidcSettings | None = None
    session_keys: tuple[bytes, ...] = field(default=(), repr=False)
    embedder: str | None = None
    search_mode: SearchMode | None = None
    stores: Mapping[str, StoreSettings] = field(default_factory=dict)
    stores_wait: float = 0.0

    @classmethod
    def from_environment(  # noqa: PLR0913  (all but the first by keyword)
        cls,
        environment: Mapping[str, str],
        *,
        dsn: str | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
        health_host: str = "127.0.0.1",
        health_port: int = 0,
    ) -> Self:
        """Settings from ``ANABRANCH_API_DSN``, ``ANABRANCH_CURSOR_KEYS`` and their like.

        Args:
            environment: Such as ``os.environ``.
            dsn: Instead of the variable.
            host: Address to listen on.
            port: Port to listen on.
            health_host: Address of the inner port.
            health_port: The inner port; 0: none.

        Raises:
            InvalidInputError: If one that is needed is missing.
        """
        dsn = dsn or environment.get("ANABRANCH_API_DSN")
        if not dsn:
            raise InvalidInputError("No database is named.", hint="Set ANABRANCH_API_DSN, or pass --dsn.")
        namespace = environment.get("ANABRANCH_SYSTEM_NAMESPACE") or DEFAULT_NAMESPACE
        return cls(
            dsn=dsn,
            audience=environment.get("ANABRANCH_AUDIENCE") or default_audience(namespace),
            cursor_keys=_keys(environment, "ANABRANCH_CURSOR_KEYS"),
            host=host,
            port=port,
            standbys_dsn=environment.get("ANABRANCH_API_DSN_RO") or None,
            listen_dsn=environment.get("ANABRANCH_LISTEN_DSN"),
            drain=_seconds(environment, "ANABRANCH_DRAIN_SECONDS", cls.drain),
            tls=_tls(environment),
            health_host=health_host,
            health_port=health_port,
            signing_key=Path(signing_key) if (signing_key := environment.get("ANABRANCH_SIGNING_KEY")) else None,
            oidc=_oidc(environment.get("ANABRANCH_OIDC")),
            session_keys=_keys(environment, "ANABRANCH_SESSION_KEYS"),
            embedder=environment.get("ANABRANCH_EMBEDDER") or None,
            search_mode=_search_mode(environment),
            stores=_stores(environment),
            stores_wait=_seconds(environment, "ANABRANCH_STORES_WAIT_SECONDS", 0.0),
        )


def _stores(environment: Mapping[str, str]) -> dict[str, StoreSettings]:
    """The databases that ``ANABRANCH_STORES`` names, besides the default one."""
    found = {}
    for name in stores.named(environment):
        dsn = environment.get(stores.variable(name, "API_DSN"))
        if not dsn:
            raise InvalidInputError(
                f"The store {name} has no DSN.",
                hint=f"Set {stores.variable(name, 'API_DSN')}, or take the name out of {stores.NAMES}.",
            )
        found[name] = StoreSettings(
            dsn=dsn,
            listen_dsn=environment.get(stores.variable(name, "LISTEN_DSN")),
            standbys_dsn=environment.get(stores.variable(name, "API_DSN_RO")),
        )
    return found


def _keys(environment: Mapping[str, str], name: str) -> tuple[bytes, ...]:
    """The secrets of a variable that holds one, or some with commas between."""
    keys = (key.strip().encode() for key in environment.get(name, "").split(","))
    return tuple(key for key in keys if key)


def _oidc(file: str | None) -> OidcSettings | None:
    if not file:
        return None
    try:
        return OidcSettings.parse(yaml.safe_load(Path(file).read_bytes()))
    except (OSError, yaml.YAMLError) as error:
        raise InvalidInputError(
            f"The OIDC configuration cannot be read: {error}.", hint="Mend the file that ANABRANCH_OIDC names."
        ) from error


def _tls(environment: Mapping[str, str]) -> tuple[Path, Path] | None:
    cert, key = (environment.get(name) for name in ("ANABRANCH_TLS_CERT", "ANABRANCH_TLS_KEY"))
    if bool(cert) != bool(key):
        raise InvalidInputError(
            "A certificate needs its key, and a key its certificate.",
            hint="Set both ANABRANCH_TLS_CERT and ANABRANCH_TLS_KEY, or neither.",
        )
    return (Path(cert), Path(key)) if cert and key else None


def _search_mode(environment: Mapping[str, str]) -> SearchMode | None:
    match environment.get("ANABRANCH_SEARCH_MODE") or None:
        case None | "words" | "hybrid" as mode:
            return mode
        case other:
            raise InvalidInputError(f"ANABRANCH_SEARCH_MODE is {other!r}.", hint="It is words, or hybrid.")


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    try:
        seconds = float(environment.get(name) or default)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= LONGEST_DRAIN_SECONDS:
        raise InvalidInputError(
            f"{name} is {environment[name]!r}.", hint=f"Give it seconds: 0 to {LONGEST_DRAIN_SECONDS}, such as 3."
        )
    return seconds
