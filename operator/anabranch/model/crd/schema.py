"""From a pydantic model to the structural OpenAPI schema that a CustomResourceDefinition demands.

Structural means: no references, no unions of shapes, a type on every level. Pydantic writes JSON Schema; this folds the
references in, turns "or null" into "optional", and refuses what has no structural form, so that a model which cannot be
a CRD fails here and not at the API server. Two manners of ours are enforced too: every field has a description, and
nothing inside a list has a default (client-side apply would report a change for ever).
"""

from __future__ import annotations

import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from anabranch.model.crd.base import format_period

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES: Final = "x-kubernetes-validations"

# In this order they are written: what a reader asks first comes first.
_KEYWORDS: Final = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "maxItems",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    RULES,
    "required",
    "properties",
    "items",
)


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a model.

    Raises:
        ValueError: Naming the field, if it has no structural form, no description, or a default inside a list.
    """
    schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    return _fold(schema, schema.get("$defs", {}), model.__name__)


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of a structural schema, depth first, as (path, its schema); `[]` stands for a list's items."""
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, field
        yield from fields(field, here)
    if "items" in schema:
        yield from fields(schema["items"], f"{path}[]")


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, but defaults are written as a resource has them."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, timedelta):
            return format_period(dft)
        if isinstance(dft, BaseModel):
            # Such a part has a default for each field, and the API server fills them in one after the other.
            return dft.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        return super().encode_default(dft)


def _fold(schema: dict[str, Any], parts: dict[str, Any], path: str, *, in_list: bool = False) -> dict[str, Any]:
    schema = _normal(_resolve(schema, parts))
    if in_list and "default" in schema:
        raise ValueError(f"{path} has a default inside a list: make it required, or optional without one")
    for name, field in schema.get("properties", {}).items():
        folded = _fold(field, parts, f"{path}.{name}", in_list=in_list)
        if "description" not in folded:
            raise ValueError(f"{path}.{name} has no description: write a docstring under the attribute")
        schema["properties"][name] = folded
    if "items" in schema:
        schema["items"] = _fold(schema["items"], parts, f"{path}[]", in_list=True)
    if unknown := schema.keys() - set(_KEYWORDS):
        raise ValueError(f"{path} has no structural form: {', '.join(sorted(unknown))}")
    if "type" not in schema:
        raise ValueError(f"{path} has no type")
    return {keyword: schema[keyword] for keyword in _KEYWORDS if keyword in schema}


def _normal(schema: dict[str, Any]) -> dict[str, Any]:
    """One level of a schema in Kubernetes' dialect."""
    schema.pop("$defs", None)
    schema.pop("title", None)
    if schema.get("additionalProperties") is False:
        # The API server knows it otherwise: what is not in `properties` is refused or pruned.
        del schema["additionalProperties"]
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    if schema.get("type") == "integer":
        schema["format"] = "int64"
    if schema.get("type") == "array":
        schema.setdefault("x-kubernetes-list-type", "atomic")
    if "description" in schema:
        schema["description"] = " ".join(inspect.cleandoc(schema["description"]).split())
    if schema.get("default", "") in (None, ""):
        # Absent means the same, and a field that is not there is shorter to read. An empty list is kept as a default:
        # a JSON patch can then add to it, and equal objects are equal to the admission policies.
        schema.pop("default", None)
    return schema


def _resolve(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    """A copy with its reference and its "or null" folded in; what stands beside a reference wins over what is in it."""
    schema = {**schema, **({"properties": dict(schema["properties"])} if "properties" in schema else {})}
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        del schema["anyOf"]
        schema = _merge(_resolve(options[0], parts), schema)
    if "$ref" in schema:
        part = parts[schema.pop("$ref").removeprefix("#/$defs/")]
        schema = _merge(_resolve(part, parts), schema)
    return schema


def _merge(part: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    merged = {**part, **beside}
    if RULES in part and RULES in beside:
        merged[RULES] = part[RULES] + beside[RULES]
    return merged
