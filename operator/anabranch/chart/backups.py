"""The chart's values of where backups go: what Kubernetes has, from which the operator's own entries are written."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from anabranch.backup.config import (  # noqa: TC001  (pydantic evaluates the annotations)
    BucketName,
    DatabaseTarget,
    Endpoint,
    Prefix,
    Region,
)
from anabranch.chart.base import Name, OptionalName, SecretKey, Values


class FolderClaim(Values):
    """A volume."""

    claim: Name = Field(
        description="PersistentVolumeClaim in the release's namespace. With several operators on several nodes it has "
        "to be ReadWriteMany."
    )


class Bucket(Values):
    """A bucket of an S3-compatible store."""

    endpoint: Endpoint = Field(description="URL of the store, without the bucket.")
    bucket: BucketName = Field(description="Its name; it must exist.")
    region: Region = Field(default="us-east-1", description="What the store calls its region.")
    prefix: Prefix = Field(default="", description="What every name begins with; ends with a slash.")
    addressing: Literal["path", "host"] = Field(
        default="path", description="Whether the bucket stands in the path or in front of the host's name."
    )
    credentials_secret: Name = Field(
        description="Secret with the keys `access-key-id`, `secret-access-key` and, if there is one, `session-token`."
    )
    ca_secret: OptionalName = Field(
        default="", description="Secret with the certificates to trust. Empty: those of the system."
    )
    ca_key: SecretKey = Field(default="ca.crt", description="Its key.")


class BackupTarget(Values):
    """One target: exactly one of these."""

    folder: FolderClaim | None = Field(default=None, description="Archives on a volume.")
    bucket: Bucket | None = Field(default=None, description="Archives in a bucket of an S3-compatible store.")
    cloud_native_pg: DatabaseTarget | None = Field(
        default=None,
        alias="cloudNativePG",
        description="Backups of the database as a whole, by CloudNativePG. The operator may then create Backups in "
        "that namespace.",
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.folder, self.bucket, self.cloud_native_pg)) != 1:
            raise ValueError("name exactly one of `folder`, `bucket` and `cloudNativePG`")
        return self
