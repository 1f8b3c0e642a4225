"""What a backup says of itself: a small file beside its archive, written last.

An archive holds a manifest's records. What else a line needs to go on stands here: whose line it is, what its manifest
was, which restores have acted. A backup without its description is none, so the description is what makes it whole.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text
from anabranch.model.crd.base import Hash, Id
from anabranch.model.errors import InvalidInputError
from anabranch.model.ids import LineId
from anabranch.model.misfits import misfits, told
from anabranch.store.backups import RestoreName
from anabranch.store.manifests import ManifestRow

FORMAT: Final = "anabranch.backup"
ENDING: Final = ".json"
_MOMENT: Final = "%Y%m%dT%H%M%S%fZ"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class DescribedArchive(_Part):
    """The archive that a description stands beside."""

    place: str = Field(description="its name in the target")
    digest: Hash
    bytes: Annotated[int, Field(gt=0)]


class DescribedManifest(_Part):
    """The manifest whose records the archive holds; as the API shows it, and its own members as they were."""

    baseline_id: Id
    generation: Annotated[int, Field(ge=1)]
    manifest_hash: Hash
    schema_version: int
    parent_generation: Annotated[int, Field(ge=0)]
    records: Annotated[int, Field(ge=0)]
    revision: Annotated[int, Field(ge=0)]
    origin: dict[str, Any]
    feed_watermark: Annotated[int, Field(ge=0)]
    created_at: datetime


class DescribedRestore(_Part):
    """A restore within the line that has acted."""

    id: str
    from_generation: int
    generation: int


class BackupDescription(_Part):
    """A backup of a line's head."""

    format: Literal["anabranch.backup"] = FORMAT
    version: Literal[1] = 1
    created_by: str
    taken_at: datetime = Field(description="everything that was published before is in it")
    namespace: str
    namespace_uid: str
    name: str
    line: Id
    epoch: Annotated[int, Field(ge=0)] = Field(description="of the feed")
    import_digest: Hash | None = Field(description="of the source that was imported last")
    restores: tuple[DescribedRestore, ...] = Field(description="that have acted, the newest first")
    manifest: DescribedManifest
    archive: DescribedArchive

    def encode(self) -> bytes:
        """Its bytes: canonical JSON."""
        return canonical_bytes(self.model_dump(mode="json"))

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """The description of some bytes.

        Raises:
            InvalidInputError: If they are none, or of a later version.
        """
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise InvalidInputError(
                f"This is no description of a backup: {told(misfits(error.errors(include_url=False)))}",
                hint="Name a file that `anabranch backup list` shows.",
            ) from None

    @property
    def place(self) -> str:
        """Its own name in the target."""
        return f"{folder_of(self.namespace, self.name)}{self.line}/{_stem(self)}{ENDING}"

    def row(self) -> ManifestRow:
        """The manifest as a store keeps it."""
        members = self.manifest.model_dump() | {"manifest_hash": hash_bytes(self.manifest.manifest_hash)}
        return ManifestRow(line=LineId(self.line), **members)

    def restored(self) -> list[RestoreName]:
        """The restores as a store keeps them."""
        return [
            RestoreName(restore_id=each.id, from_generation=each.from_generation, generation=each.generation)
            for each in self.restores
        ]


def folder_of(namespace: str, name: str) -> str:
    """What the names of all backups of a Baseline begin with."""
    return f"{namespace}/{name}/"


def archive_place(namespace: str, name: str, manifest: ManifestRow, digest: str) -> str:
    """The name of an archive in a target: the same bytes have the same name."""
    folder = folder_of(namespace, name)
    return f"{folder}{manifest.line}/{manifest.generation:012d}-{hash_bytes(digest).hex()[:16]}.anabranch"


def described(manifest: ManifestRow) -> DescribedManifest:
    """What a description says of a manifest."""
    members = {name: getattr(manifest, name) for name in DescribedManifest.model_fields}
    return DescribedManifest.model_validate(members | {"manifest_hash": hash_text(manifest.manifest_hash)})


def _stem(described: BackupDescription) -> str:
    return f"{described.manifest.generation:012d}-{described.taken_at.astimezone(UTC).strftime(_MOMENT)}"
