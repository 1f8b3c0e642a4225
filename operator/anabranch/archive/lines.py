"""The first and the last line of an archive.

The header says what the archive is before a record is read; the trailer says that all of it came. They are written and
read once, so they can afford pydantic's words for what is wrong.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from anabranch.archive.errors import ArchiveFormatError
from anabranch.model.breadth import check_breadth
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import InvalidInputError
from anabranch.model.limits import LINE_SCOPES
from anabranch.model.misfits import misfits, told
from anabranch.model.wire import Generation, Hash, Scope

MEDIA_TYPE: Final = "application/vnd.anabranch.archive+zstd"
FORMAT: Final = "anabranch.archive"
VERSION: Final = 1

_Base64 = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]+={0,2}$", max_length=8192)]
_Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def encode(self) -> bytes:
        """The line, without the line end: canonical JSON, members that are unset left out."""
        return canonical_bytes(self.model_dump(mode="json", exclude_none=True))


_LineT = TypeVar("_LineT", bound=_Line)


class ArchiveManifest(_Line):
    """The manifest that an export was made of."""

    line: _Text | None = Field(default=None, description="the line's id; left out where it must not travel")
    baseline_id: _Text
    generation: Generation
    manifest_hash: Hash = Field(description="root of the trie, which the records of the archive recompute")


class EnvelopeSignature(_Line):
    """One signature of an envelope."""

    keyid: _Text
    sig: _Base64


class Envelope(_Line):
    """An in-toto statement about the manifest, signed (DSSE)."""

    payload: _Base64
    payloadType: _Text  # noqa: N815  (DSSE's name)
    signatures: Annotated[tuple[EnvelopeSignature, ...], Field(min_length=1, max_length=8, strict=False)]


class ArchiveHeader(_Line):
    """What the archive is."""

    format: Literal["anabranch.archive"] = FORMAT
    version: Literal[1] = VERSION
    kind: Literal["import", "export"]
    created_by: _Text = Field(description="the program and its version, such as anabranch/0.1.0")
    manifest: ArchiveManifest | None = Field(default=None, description="of an export; an import has none yet")
    partial: bool = Field(default=False, description="whether records are withheld")
    signature: Envelope | None = Field(
        default=None, description="of an export, by the installation's key: a DSSE envelope"
    )
    withheld_scopes: Annotated[tuple[Scope, ...], Field(max_length=LINE_SCOPES, strict=False)] = Field(
        default=(), description="scopes that a partial export left out, where their names may be told"
    )

    @model_validator(mode="after")
    def _kinds(self) -> Self:
        if (self.kind == "export") != (self.manifest is not None):
            raise ValueError("an export names its manifest, and an import has none")
        if self.signature is not None and self.manifest is None:
            raise ValueError("only an export can be signed")
        if self.withheld_scopes and not self.partial:
            raise ValueError("only a partial archive withholds scopes")
        return self


class ArchiveTrailer(_Line):
    """That the archive is whole."""

    records: Annotated[int, Field(ge=0)] = Field(description="record lines, withheld ones not counted")
    records_digest: Hash = Field(description="SHA-256 over every line between header and trailer, line ends included")
    withheld: Annotated[int, Field(ge=0)] = Field(description="lines that stand for withheld records")


def parse_header(members: Any, line: bytes) -> ArchiveHeader:
    """The header that the first line stands for.

    Raises:
        ArchiveFormatError: If it is none, or of a later version.
    """
    if not isinstance(members, dict) or members.get("format") != FORMAT:
        raise ArchiveFormatError("The first line is no archive header.", hint="Make an archive with anabranch import.")
    if members.get("version") != VERSION:
        raise ArchiveFormatError(
            f"The archive has format version {members.get('version')!r}, this program reads {VERSION}.",
            hint="Upgrade this program, or make the archive with an older one.",
        )
    return _parse(ArchiveHeader, members, line, name="header")


def parse_trailer(members: Any, line: bytes) -> ArchiveTrailer:
    """The trailer that the last line stands for.

    Raises:
        ArchiveFormatError: If it is none.
    """
    return _parse(ArchiveTrailer, members, line, name="trailer")


def _parse(model: type[_LineT], members: Any, line: bytes, *, name: str) -> _LineT:
    try:
        # Before pydantic, which keeps each fault: a line of two megabytes has room for many, and compresses to little.
        check_breadth(model, members)
        parsed = model.model_validate(members)
    except InvalidInputError as error:
        raise ArchiveFormatError(
            f"The archive's {name} is ill-formed: {error.detail}", hint="Make the archive again."
        ) from None
    except ValidationError as error:
        found = told(misfits(error.errors(include_url=False)))
        raise ArchiveFormatError(
            f"The archive's {name} is ill-formed: {found}", hint="Make the archive again."
        ) from None
    if parsed.encode() != line:
        raise ArchiveFormatError(f"The archive's {name} is not in canonical form.", hint="Make the archive again.")
    return parsed
