"""What the API is told when it starts: by its environment, so that one image serves every installation."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from anabranch.manifests.install import DEFAULT_NAMESPACE, default_audience
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_DRAIN_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one process of the API runs.

    Attributes:
        dsn: Of Postgres, as the role of the API.
        audience: Of this installation: what tokens must be meant for.
        cursor_keys: Secrets that cursors are sealed with; the first one seals, all open.
        host: Address to listen on.
        port: Port to listen on.
        listen_dsn: A direct way to Postgres, where ``dsn`` goes through a transaction pooler.
        kubeconfig: Path of the kubeconfig; None: the usual places.
        drain: Seconds that it goes on answering after it was told to end: as long as balancers take to hear of it.
        tls: PEM files of the certificate and of its key; None: plain HTTP.
        health_host: Address of the inner port: /metrics, /healthz, /readyz.
        health_port: The inner port; 0: none.
        signing_key: PEM file of an Ed25519 key that manifests are signed with; None: they are not.
    """

    dsn: str = field(repr=False)
    audience: str
    cursor_keys: tuple[bytes, ...] = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 8080
    listen_dsn: str | None = field(default=None, repr=False)
    kubeconfig: str | None = None
    drain: float = 3.0
    tls: tuple[Path, Path] | None = None
    health_host: str = "127.0.0.1"
    health_port: int = 0
    signing_key: Path | None = None

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
        keys = tuple(key.strip().encode() for key in environment.get("ANABRANCH_CURSOR_KEYS", "").split(","))
        namespace = environment.get("ANABRANCH_SYSTEM_NAMESPACE") or DEFAULT_NAMESPACE
        return cls(
            dsn=dsn,
            audience=environment.get("ANABRANCH_AUDIENCE") or default_audience(namespace),
            cursor_keys=tuple(key for key in keys if key),
            host=host,
            port=port,
            listen_dsn=environment.get("ANABRANCH_LISTEN_DSN"),
            drain=_seconds(environment, "ANABRANCH_DRAIN_SECONDS", cls.drain),
            tls=_tls(environment),
            health_host=health_host,
            health_port=health_port,
            signing_key=Path(signing_key) if (signing_key := environment.get("ANABRANCH_SIGNING_KEY")) else None,
        )


def _tls(environment: Mapping[str, str]) -> tuple[Path, Path] | None:
    cert, key = (environment.get(name) for name in ("ANABRANCH_TLS_CERT", "ANABRANCH_TLS_KEY"))
    if bool(cert) != bool(key):
        raise InvalidInputError(
            "A certificate needs its key, and a key its certificate.",
            hint="Set both ANABRANCH_TLS_CERT and ANABRANCH_TLS_KEY, or neither.",
        )
    return (Path(cert), Path(key)) if cert and key else None


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
