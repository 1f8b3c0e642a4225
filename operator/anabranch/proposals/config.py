"""Which models there are: named entries of the operator's own configuration, as with everything that is an address.

A Baseline selects one by its name. What is sent there are the texts of findings and records, so whoever runs the
installation says where that may be.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

ModelUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s/@?#]+(/[^\s?#]*)?$", max_length=2048)]


class ModelSettings(BaseModel):
    """What can be said of a model beside where its secrets lie."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )

    url: ModelUrl = Field(
        description="Base of an API that is compatible with OpenAI's, without `/chat/completions`: "
        "`https://models.example/v1`."
    )
    model: Annotated[str, StringConstraints(min_length=1, max_length=253)] = Field(
        description="Name of the model, as the API knows it."
    )
    timeout_seconds: Annotated[int, Field(ge=1, le=600)] = Field(
        default=60, description="Longest that one request may take, with all of its answer."
    )
    max_tokens: Annotated[int, Field(ge=16, le=65_536)] = Field(
        default=2_048,
        description="Longest answer, in tokens. A longer one is cut off by the API, and then no proposal.",
    )
    tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        default="max_tokens", description="Under which name the API takes that bound."
    )
    max_input_bytes: Annotated[int, Field(ge=1_024, le=4 << 20)] = Field(
        default=65_536, description="Most text that one request holds, in bytes. Nothing is asked about more than that."
    )
    json_mode: bool = Field(
        default=True, description='Whether the API takes `response_format: {"type": "json_object"}`.'
    )

    @model_validator(mode="after")
    def _has_a_port(self) -> Self:
        if urlsplit(self.url).port == 0:  # beyond 65535 it raises
            raise ValueError("port 0 is none")
        return self


class ModelEndpoint(ModelSettings):
    """A model that Baselines may select by its name."""

    api_key_file: str | None = Field(
        default=None, description="File with the key, read for each request; sent over https only"
    )
    ca_file: str | None = Field(default=None, description="certificates to trust instead of the system's")

    @model_validator(mode="after")
    def _no_key_in_the_clear(self) -> Self:
        if self.api_key_file is not None and not self.url.startswith("https:"):
            raise ValueError("a key is sent over https only: let `url` begin with https:, or leave the key out")
        return self
