"""Which issuer is trusted with the names of people, and how its claims become users and groups of the cluster.

Names and defaults are those of the API server's `--oidc-…` flags. So whoever has configured that the same way meets
the same users and groups here, and a RoleBinding for a person means that person in both.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from anabranch.model.errors import InvalidInputError
from anabranch.model.misfits import misfits, told

Algorithm: TypeAlias = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"]
"""All of them are of key pairs: with a shared secret, who checks a token could make one."""

NO_PREFIX: Final = "-"


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or parts.username is not None:
        raise ValueError("it must begin with https://, and have neither query nor fragment")
    return url


def _origin(url: str) -> str:
    if urlsplit(_address(url)).path not in {"", "/"}:
        raise ValueError("it must be a name alone, without a path")
    return url.rstrip("/")


Address: TypeAlias = Annotated[str, AfterValidator(_address)]
Origin: TypeAlias = Annotated[str, AfterValidator(_origin)]


class OidcSettings(BaseModel):
    """One issuer, and this installation as its client."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )

    issuer: Address = Field(description="URL of the issuer, exactly as its tokens name it")
    client_id: str = Field(min_length=1, description="the client that tokens must be made for")
    client_secret_file: Path | None = Field(
        default=None, description="file with the client's secret; none: the client is a public one"
    )
    username_claim: str = Field(default="sub", min_length=1, description="the claim that names a person")
    username_prefix: str = Field(
        default="",
        description="put before it; empty: the issuer's URL and `#`, but nothing before an `email`; `-`: nothing",
    )
    groups_claim: str = Field(default="", description="the claim with groups, a text or a list of them; empty: none")
    groups_prefix: str = Field(default="", description="put before each group")
    required_claims: dict[str, str] = Field(
        default_factory=dict, description="claims that a token must have, each with exactly this value"
    )
    signing_algs: list[Algorithm] = Field(default=["RS256"], min_length=1, description="signatures that are accepted")
    scopes: list[str] = Field(
        default=["openid", "profile", "email"], description="what is asked for when somebody logs in"
    )
    ca_file: Path | None = Field(default=None, description="authorities to trust instead of the system's")
    public_url: Origin | None = Field(
        default=None, description="where people reach the API by a browser; none: there are no pages"
    )
    session_minutes: int = Field(default=60, ge=5, le=24 * 60, description="how long somebody stays logged in")

    @property
    def prefix(self) -> str:
        """What stands before each username."""
        if self.username_prefix:
            return "" if self.username_prefix == NO_PREFIX else self.username_prefix
        return "" if self.username_claim == "email" else f"{self.issuer}#"

    @classmethod
    def parse(cls, value: Any) -> Self:
        """The settings of a parsed YAML document.

        Raises:
            InvalidInputError: Naming the entry and what is wrong with it.
        """
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            found = told(misfits(error.errors(include_url=False)))
            raise InvalidInputError(
                f"The OIDC configuration's {found}", hint="Mend the file that ANABRANCH_OIDC names."
            ) from None
