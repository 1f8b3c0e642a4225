"""The chart's values of who may call besides ServiceAccounts: people, by an OpenID Connect issuer.

They are the settings that the API reads (`anabranch.identity.oidc`), with Secrets in the place of files.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from anabranch.chart.base import OptionalName, OwnSecrets, SecretKey, Values
from anabranch.identity.oidc.settings import Algorithm  # noqa: TC001  (pydantic evaluates the annotations)


class ClientSecret(Values):
    """The client's secret."""

    name: OptionalName = Field(default="", description="Secret that holds it. Empty: the client is a public one.")
    key: SecretKey = Field(default="client-secret", description="Its key.")


class IssuerCa(Values):
    """Whom the issuer's certificate may be signed by."""

    name: OptionalName = Field(
        default="", description="Secret with the authorities' certificates. Empty: those that the system trusts."
    )
    key: SecretKey = Field(default="ca.crt", description="Its key.")


class SessionKeys(OwnSecrets):
    """The secrets that people's sessions are sealed with."""


class Oidc(Values):
    """An issuer of people's tokens."""

    issuer: Annotated[str, StringConstraints(pattern=r"^(https://[^?#@\s]+)?$")] = Field(
        default="", description="Its URL, exactly as its tokens name it. Empty: people have tokens of the cluster only."
    )
    client_id: str = Field(default="", description="The client that tokens must be made for. Needed with the issuer.")
    client_secret: ClientSecret = Field(
        default_factory=ClientSecret, description="The client's secret, for people who log in."
    )
    username_claim: str = Field(default="sub", min_length=1, description="The claim that names a person.")
    username_prefix: str = Field(
        default="",
        description="Put before it. Empty: the issuer and `#`, but nothing before an `email`. `-`: nothing.",
    )
    groups_claim: str = Field(default="", description="The claim with a person's groups. Empty: nobody has groups.")
    groups_prefix: str = Field(default="", description="Put before each group.")
    required_claims: dict[str, str] = Field(
        default_factory=dict, description="Claims that a token must have, each with exactly this value."
    )
    signing_algs: list[Algorithm] = Field(default=["RS256"], min_length=1, description="Signatures that are accepted.")
    ca_secret: IssuerCa = Field(default_factory=IssuerCa, description="Whom the issuer's certificate may be signed by.")
    public_url: Annotated[str, StringConstraints(pattern=r"^(https://[^/?#@\s]+)?$")] = Field(
        default="",
        description="Where people reach the API by a browser, without a path: it then serves the review page at "
        "`/ui/`. Empty: there are no pages. An Ingress or Gateway for it is yours to make.",
    )
    scopes: list[str] = Field(
        default=["openid", "profile", "email"], description="What is asked for when somebody logs in."
    )
    session_minutes: Annotated[int, Field(ge=5, le=1_440)] = Field(
        default=60, description="How long somebody stays logged in."
    )
    session_keys: SessionKeys = Field(default_factory=SessionKeys, description="What sessions are sealed with.")


class Auth(Values):
    """Who may call besides ServiceAccounts."""

    oidc: Oidc = Field(
        default_factory=Oidc,
        description="People by an OpenID Connect issuer, with the API server's meaning of claims and prefixes: set "
        "them as your API server has them, see `docs/oidc.md`.",
    )
