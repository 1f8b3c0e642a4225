"""Which repositories and hosts findings may cite: named entries of the operator's own configuration.

Nothing that a Baseline or an agent writes is an address. A locator names an entry, and whoever runs the operator
says what the name stands for and what it may reach.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from anabranch.model.errors import InvalidInputError
from anabranch.model.misfits import misfits, told

EntryName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=253)]


class _Entry(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class GitRepository(_Entry):
    """A repository that ``git:<name>@<commit>:<path>`` may cite."""

    path: str | None = Field(default=None, description="a repository on this machine; either this or `url`")
    url: str | None = Field(default=None, description="where to mirror it from, with git's own credentials")

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise ValueError("name exactly one of `path` and `url`")
        return self


class HttpSource(_Entry):
    """A host that ``https://…`` locators may cite."""

    host: Annotated[str, StringConstraints(to_lower=True, pattern=r"^[A-Za-z0-9.-]+(:[0-9]{1,5})?$")] = Field(
        description="host, and port where it is not 443"
    )
    allow_private: bool = Field(default=False, description="whether the host may have a private address")
    ca_file: str | None = Field(default=None, description="certificates to trust instead of the system's")


class SourcesConfig(_Entry):
    """All that findings may cite outside the system itself."""

    git_repositories: dict[EntryName, GitRepository] = Field(default_factory=dict)
    http_sources: dict[EntryName, HttpSource] = Field(default_factory=dict)
    cache_folder: str | None = Field(default=None, description="where mirrors are kept; a temporary folder if unset")

    @classmethod
    def parse(cls, value: Any) -> Self:
        """The configuration of a parsed YAML document; an empty one is empty.

        Raises:
            InvalidInputError: Naming the entry and what is wrong with it.
        """
        try:
            return cls.model_validate(value or {})
        except ValidationError as error:
            found = told(misfits(error.errors(include_url=False)))
            raise InvalidInputError(
                f"The configuration's {found}", hint="Mend the file that ANABRANCH_CONFIG names."
            ) from None
