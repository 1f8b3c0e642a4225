"""What is written from the chart's values: their schema, the file of defaults, and the page that explains them."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import BaseModel

from anabranch.chart.values import ChartValues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

_HEADER: Final = "# Generated from operator/anabranch/chart by `make generate`. Change it there.\n"
_WIDTH: Final = 110
_HIDDEN: Final = frozenset({"global"})
"""Known to the schema, and nothing that anybody sets here."""

_PAGE: Final = """\
<!-- Generated from operator/anabranch/chart by `make generate`. Change it there. -->
# Values of the Helm chart

Every value of `charts/anabranch`, with its default. A value that is not here is refused when the chart is rendered,
with its name. [install.md](install.md) says which ones you need; `helm show values` prints the same as a file.
"""


def schema() -> str:
    """`values.schema.json`."""
    document = ChartValues.model_json_schema(mode="validation")
    # What a validator of the model says: Helm knows only the schema.
    document["$defs"]["GitRepository"]["oneOf"] = [{"required": ["path"]}, {"required": ["url"]}]
    kinds = ("folder", "bucket", "cloudNativePG")
    document["$defs"]["BackupTarget"]["oneOf"] = [{"required": [kind]} for kind in kinds]
    document = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_bare(document)}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def defaults() -> str:
    """`values.yaml`."""
    return _HEADER + "\n".join(_lines(ChartValues(), depth=0)) + "\n"


def page() -> str:
    """`docs/values.md`."""
    return _PAGE + "".join(_sections(ChartValues()))


def _bare(node: Any) -> Any:
    """A schema without the titles that pydantic makes of names, and without its word for 'not set'."""
    if isinstance(node, list):
        return [_bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    if "patternProperties" in node:  # a name that fits no pattern would be let through, and all below it
        node = {**node, "additionalProperties": False}
    # Under `properties` and `$defs` the names are ours.
    return {
        name: {key: _bare(value) for key, value in member.items()}
        if name in ("properties", "$defs")
        else member
        if name in ("default", "const", "enum")
        else _bare(member)
        for name, member in node.items()
        if not (name == "title" and isinstance(member, str))
    }


def _fields(values: BaseModel) -> Iterator[tuple[str, FieldInfo, Any]]:
    """Name, field and default of each value: those that a class adds come before those that it inherits."""
    kind = type(values)
    for name in sorted(kind.model_fields, key=lambda name: name not in kind.__annotations__):
        field = kind.model_fields[name]
        alias = str(field.alias or name)
        if alias not in _HIDDEN:
            yield alias, field, getattr(values, name)


def _lines(values: BaseModel, *, depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, field, value in _fields(values):
        if depth == 0:
            yield ""
        for line in textwrap.wrap(field.description or "", _WIDTH - len(indent)):
            yield f"{indent}# {line}"
        if isinstance(value, BaseModel):
            yield f"{indent}{name}:"
            yield from _lines(value, depth=depth + 1)
        else:
            yield from textwrap.indent(_as_yaml(name, value), indent).splitlines()


def _as_yaml(name: str, value: Any) -> str:
    flow = None if isinstance(value, dict | list) else False
    return yaml.safe_dump({name: value}, sort_keys=False, default_flow_style=flow, width=_WIDTH)


def _sections(values: BaseModel) -> Iterator[str]:
    for name, field, value in _fields(values):
        yield f"\n## {name}\n\n"
        if isinstance(value, BaseModel):
            yield f"{field.description}\n\n"
            yield "| value | type | default | meaning |\n| --- | --- | --- | --- |\n"
            yield from _rows(value, name)
        else:
            entry = _entry(field)
            yield f"{field.description} Default: {_shown(value) or 'empty'}.\n"
            if entry is not None:
                yield "\n| member of an entry | type | default | meaning |\n| --- | --- | --- | --- |\n"
                yield from _members(entry)


def _rows(values: BaseModel, path: str) -> Iterator[str]:
    for name, field, value in _fields(values):
        if isinstance(value, BaseModel):
            yield from _rows(value, f"{path}.{name}")
        else:
            yield _row(f"{path}.{name}", field, _shown(value))


def _members(entry: type[BaseModel], path: str = "") -> Iterator[str]:
    for member, field in entry.model_fields.items():
        name = f"{path}{field.alias or member}"
        if (inner := _entry(field)) is not None:
            yield f"| `{name}` | mapping |  | {field.description} |\n"
            yield from _members(inner, f"{name}.")
        else:
            yield _row(name, field, "" if field.is_required() else _shown(field.default))


def _row(path: str, field: FieldInfo, default: str) -> str:
    description = (field.description or "").replace("|", "\\|")
    return f"| `{path}` | {_type(field)} | {default} | {description} |\n"


def _entry(field: FieldInfo) -> type[BaseModel] | None:
    """The model of a mapping, or of its entries, where it has one."""
    arguments = getattr(field.annotation, "__args__", (field.annotation,))
    found = [each for each in arguments if isinstance(each, type) and issubclass(each, BaseModel)]
    return found[0] if found else None


def _type(field: FieldInfo) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "mapping", list: "list"}
    annotation = field.annotation
    origin = getattr(annotation, "__origin__", annotation)
    if values := _choices(annotation):
        return ", ".join(f"`{value}`" for value in values)
    otherwise = "string or integer" if "int" in str(annotation) else "string"
    return next((name for kind, name in names.items() if origin is kind), otherwise)


def _choices(annotation: Any) -> tuple[str, ...]:
    arguments: tuple[Any, ...] = getattr(annotation, "__args__", ())
    return arguments if arguments and all(isinstance(each, str) for each in arguments) else ()


def _shown(value: Any) -> str:
    return f"`{json.dumps(value)}`" if value not in ("", None) else ""
