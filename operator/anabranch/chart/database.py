"""The chart's values of the database: somebody else's, one that CloudNativePG runs, or one pod for a trial."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anabranch.chart.base import Anything, OptionalKey, OptionalName, OptionalQuantity, Placed, SecretKey, Values


class Keys(Values):
    """Where in the Secret each program finds its DSN."""

    operator: SecretKey = Field(default="operator-dsn", description="Key of the DSN as role `anabranch_operator`.")
    api: SecretKey = Field(default="api-dsn", description="Key of the DSN as role `anabranch_api`.")
    migrate: SecretKey = Field(
        default="migrate-dsn", description="Key of the DSN as role `anabranch_migrate`, which owns the tables."
    )
    operator_listen: OptionalKey = Field(
        default="",
        description="Key of the operator's DSN for LISTEN, past the pooler, where `operator` goes through one.",
    )
    api_listen: OptionalKey = Field(
        default="", description="Key of the API's DSN for LISTEN, past the pooler, where `api` goes through one."
    )


class CaSecret(Values):
    """The authority of the database server's certificate."""

    name: OptionalName = Field(
        default="",
        description="Secret with the authority's certificate. It is mounted as `/etc/anabranch/database/ca.crt`: "
        "let the DSNs say `sslmode=verify-full&sslrootcert=/etc/anabranch/database/ca.crt`.",
    )
    key: SecretKey = Field(default="ca.crt", description="Its key.")


class CloudNativePG(Values):
    """The Cluster of CloudNativePG."""

    instances: Annotated[int, Field(ge=1, le=20)] = Field(default=3, description="Postgres servers: one leads.")
    image_name: str = Field(default="", description="Postgres image. Empty: the operator's default.")
    storage_size: OptionalQuantity = Field(default="20Gi", description="Size of each server's volume.")
    storage_class: OptionalName = Field(default="", description="StorageClass. Empty: the cluster's default.")
    resources: Anything = Field(default_factory=dict, description="Requests and limits of each server.")
    extra_spec: Anything = Field(
        default_factory=dict,
        description="More of the Cluster's `spec`, such as `backup` or `affinity`. It goes over what the chart sets.",
    )


class Trial(Placed):
    """A Postgres server in a single pod: no replica, no backup."""

    image: str = Field(
        default="postgres:18",
        min_length=1,
        description="An image with a shell, and with `initdb` and `postgres` on its PATH.",
    )
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = Field(
        default="IfNotPresent", description="When the image is pulled."
    )
    run_as_user: Annotated[int, Field(ge=1)] = Field(
        default=999, description="User id of the server. It must be in the image's `/etc/passwd`."
    )
    storage_size: OptionalQuantity = Field(
        default="5Gi",
        description="Size of the volume. Empty: no volume, and the data goes with the pod. A StatefulSet's cannot be "
        "changed later.",
    )
    storage_class: OptionalName = Field(default="", description="StorageClass. Empty: the cluster's default.")
    resources: Anything = Field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        description="Requests and limits of the server.",
    )


class Database(Values):
    """Postgres."""

    mode: Literal["existing", "cloudnativepg", "trial"] = Field(
        default="existing",
        description="`existing`: a database of yours, by `database.existingSecret`. `cloudnativepg`: a Cluster, where "
        "CloudNativePG is installed. `trial`: a single pod, not for data that matters.",
    )
    existing_secret: OptionalName = Field(
        default="", description="Mode `existing`: the Secret that holds the DSNs, in the release's namespace."
    )
    keys: Keys = Field(default_factory=Keys, description="Mode `existing`: where the Secret holds what.")
    ca_secret: CaSecret = Field(default_factory=CaSecret, description="Mode `existing`: whom the DSNs may trust.")
    cloudnativepg: CloudNativePG = Field(
        default_factory=CloudNativePG, description="Mode `cloudnativepg`: what the Cluster is like."
    )
    trial: Trial = Field(default_factory=Trial, description="Mode `trial`: what the pod is like.")


class Migration(Placed):
    """The Job that brings the database to the release's schema."""

    enabled: bool = Field(
        default=True,
        description="Whether the release migrates. Where you run `anabranch migrate` yourself, the pods wait for it.",
    )
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = Field(
        default=10,
        description="How often it is tried again. Each try waits two minutes for a server that is not up yet.",
    )
    wait_seconds: Annotated[int, Field(ge=10, le=86_400)] = Field(
        default=600, description="How long new pods wait for the schema before they begin anew."
    )
    resources: Anything = Field(
        default_factory=lambda: {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
        description="Requests and limits of the Job, and of the pods' waiting for it.",
    )
