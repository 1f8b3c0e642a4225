"""The chart's values of the database: somebody else's, one that CloudNativePG runs, or one pod for a trial."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from anabranch.chart.base import Anything, Name, OptionalKey, OptionalName, OptionalQuantity, Placed, SecretKey, Values


class Keys(Values):
    """Where in the Secret each program finds its DSN."""

    operator: SecretKey = Field(default="operator-dsn", description="Key of the DSN as role `anabranch_operator`.")
    api: SecretKey = Field(default="api-dsn", description="Key of the DSN as role `anabranch_api`.")
    api_standbys: OptionalKey = Field(
        default="",
        description="Key of the API's DSN of the database's streaming standbys, for reads of what never changes. "
        "Empty: the primary answers all.",
    )
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


class Synchronous(Values):
    """How many standbys a commit waits for."""

    number: Annotated[int, Field(ge=0, le=19)] = Field(
        default=1,
        description="Standbys, any of them, that must have a commit before it is acknowledged: what was, outlives the "
        "primary. None where `instances` is no more than that; 0: none.",
    )
    data_durability: Literal["required", "preferred"] = Field(
        default="required",
        description="What becomes of writes while there are too few standbys. `required`: they wait. `preferred`: they "
        "go on, and a failover then may lose some that were acknowledged.",
    )


class CloudNativePG(Values):
    """The Cluster of CloudNativePG."""

    instances: Annotated[int, Field(ge=1, le=20)] = Field(default=3, description="Postgres servers: one leads.")
    synchronous: Synchronous = Field(default_factory=Synchronous, description="How many standbys a commit waits for.")
    read_from_standbys: bool = Field(
        default=True,
        description="Whether the API reads what never changes from the standbys, where there are any; what they lack, "
        "and all else, from the primary.",
    )
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


class StoreKeys(Values):
    """Where in a further store's Secret each program finds its DSN."""

    operator: SecretKey = Field(default="operator-dsn", description="Key of the DSN as role `anabranch_operator`.")
    api: SecretKey = Field(default="api-dsn", description="Key of the DSN as role `anabranch_api`.")
    migrate: SecretKey = Field(default="migrate-dsn", description="Key of the DSN as role `anabranch_migrate`.")
    operator_listen: OptionalKey = Field(
        default="", description="Key of the operator's DSN for LISTEN, past the pooler, if there is one."
    )
    api_listen: OptionalKey = Field(
        default="", description="Key of the API's DSN for LISTEN, past the pooler, if there is one."
    )
    api_standbys: OptionalKey = Field(
        default="", description="Key of the API's DSN of the streaming standbys, if there are any to read from."
    )


class StoreCaSecret(Values):
    """The authority of a further store's certificate."""

    name: OptionalName = Field(
        default="",
        description="Secret with the authority's certificate, mounted as `/etc/anabranch/stores/<name>/ca.crt`.",
    )
    key: SecretKey = Field(default="ca.crt", description="Its key.")


class Store(Values):
    """A database besides the default one."""

    existing_secret: Name = Field(description="The Secret that holds its DSNs, in the release's namespace.")
    keys: StoreKeys = Field(default_factory=StoreKeys, description="Where the Secret holds what.")
    ca_secret: StoreCaSecret = Field(default_factory=StoreCaSecret, description="Whom the DSNs may trust.")


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
