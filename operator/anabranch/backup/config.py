"""Where backups go: named entries of the operator's own configuration.

A Baseline selects a name. Whoever runs the operator says what folder, bucket or database the name stands for; nothing
that a Baseline says is an address, a path or a credential.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

TargetName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Endpoint = Annotated[str, StringConstraints(pattern=r"^https?://[^/?#]+/?$")]
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][-.a-z0-9]{1,61}[a-z0-9]$")]
Region = Annotated[str, StringConstraints(pattern=r"^[-a-zA-Z0-9]{1,63}$")]
Prefix = Annotated[str, StringConstraints(pattern=r"^([-._a-zA-Z0-9]+/)*$", max_length=256)]
ObjectName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=253)]


class _Entry(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_name=True, validate_by_alias=True
    )


class FolderTarget(_Entry):
    """A folder: of a volume that outlives the database."""

    path: Annotated[str, StringConstraints(pattern=r"^/")] = Field(description="absolute; it must exist")


class BucketTarget(_Entry):
    """A bucket of an S3-compatible store."""

    endpoint: Endpoint = Field(description="URL of the store, without the bucket")
    bucket: BucketName = Field(description="its name; it must exist")
    region: Region = Field(default="us-east-1", description="what the store calls its region")
    prefix: Prefix = Field(default="", description="what every name begins with; ends with a slash")
    addressing: Literal["path", "host"] = Field(
        default="path", description="whether the bucket stands in the path or in front of the host's name"
    )
    credentials_folder: Annotated[str, StringConstraints(pattern=r"^/")] = Field(
        description="holds the files `access-key-id`, `secret-access-key` and, if there is one, `session-token`; read "
        "anew for each request"
    )
    ca_file: str | None = Field(default=None, description="certificates to trust instead of the system's")


class DatabaseTarget(_Entry):
    """The database as a whole, by a Backup object that CloudNativePG acts on."""

    namespace: ObjectName = Field(description="namespace of the Cluster")
    cluster: ObjectName = Field(description="name of the Cluster that this installation's database is in")
    method: Literal["barmanObjectStore", "volumeSnapshot", "plugin"] = Field(
        default="volumeSnapshot", description="as of the Backup's `spec.method`"
    )
    plugin: Annotated[str, StringConstraints(pattern=r"^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$", max_length=253)] = Field(
        default="", description="with the method `plugin`: its name"
    )

    @model_validator(mode="after")
    def _plugged(self) -> Self:
        if (self.method == "plugin") != bool(self.plugin):
            raise ValueError("name `plugin` with the method `plugin`, and only then")
        return self


class BackupTarget(_Entry):
    """One target: exactly one of these."""

    folder: FolderTarget | None = Field(default=None, description="archives in a folder")
    bucket: BucketTarget | None = Field(default=None, description="archives in a bucket of an S3-compatible store")
    cloud_native_pg: DatabaseTarget | None = Field(
        default=None, alias="cloudNativePG", description="backups of the database as a whole"
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.folder, self.bucket, self.cloud_native_pg)) != 1:
            raise ValueError("name exactly one of `folder`, `bucket` and `cloudNativePG`")
        return self
