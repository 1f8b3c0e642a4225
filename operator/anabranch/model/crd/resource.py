"""A resource as the services take it: who it is, and its parsed spec. Nothing of it is an API client's type."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from pydantic import ValidationError

from anabranch.model.crd.base import Spec
from anabranch.model.crd.baseline import BaselineSpec
from anabranch.model.crd.branch import BranchSpec
from anabranch.model.crd.job import ConsolidationJobSpec
from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

SpecT = TypeVar("SpecT", bound=Spec)


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[SpecT]):
    """One object of one kind, as read from the API server."""

    KIND: ClassVar[str]
    PLURAL: ClassVar[str]
    SPEC: ClassVar[type[Spec]]

    namespace: str
    name: str
    uid: str
    generation: int
    spec: SpecT
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: datetime | None = None

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        """Parse an object in its JSON form.

        Raises:
            InvalidInputError: If the spec has a field or a value that this release does not know.
        """
        metadata = body["metadata"]
        try:
            spec: Any = cls.SPEC.model_validate(dict(body.get("spec") or {}))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            path = ".".join(str(part) for part in ("spec", *first["loc"]))
            raise InvalidInputError(
                f"{cls.KIND} {metadata['namespace']}/{metadata['name']}: {path}: {first['msg']}.",
                hint="Mend the resource, or bring the operator and the CRDs to one release.",
            ) from None
        deleted = metadata.get("deletionTimestamp")
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            generation=metadata["generation"],
            spec=spec,
            finalizers=tuple(metadata.get("finalizers") or ()),
            deletion_timestamp=datetime.fromisoformat(deleted) if deleted else None,
        )


@dataclass(frozen=True, kw_only=True)
class BaselineResource(Resource[BaselineSpec]):
    """A Baseline."""

    KIND = "Baseline"
    PLURAL = "baselines"
    SPEC = BaselineSpec


@dataclass(frozen=True, kw_only=True)
class BranchResource(Resource[BranchSpec]):
    """A Branch."""

    KIND = "Branch"
    PLURAL = "branches"
    SPEC = BranchSpec

    @property
    def baseline(self) -> tuple[str, str]:
        """Namespace and name of its Baseline."""
        return self.spec.baseline_ref.namespace or self.namespace, self.spec.baseline_ref.name


@dataclass(frozen=True, kw_only=True)
class ConsolidationJobResource(Resource[ConsolidationJobSpec]):
    """A ConsolidationJob."""

    KIND = "ConsolidationJob"
    PLURAL = "consolidationjobs"
    SPEC = ConsolidationJobSpec

    @property
    def branch(self) -> tuple[str, str] | None:
        """Namespace and name of its Branch, where it has one."""
        ref = self.spec.branch_ref
        return (ref.namespace or self.namespace, ref.name) if ref else None
