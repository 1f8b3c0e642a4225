"""YAML as JSON: the core schema of YAML 1.2, and nothing that JSON cannot say.

PyYAML reads YAML 1.1, in which ``no`` is false, ``12:30`` is 750 and ``2025-03-01`` is a date that JSON lacks. What
people write is full of those, so here they stay the text that was typed. Tags, non-string names, duplicate names,
infinities, and aliases that expand beyond measure are refused, with the line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import yaml

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Hashable

# libyaml's parser is some ten times faster; PyYAML's wheels carry it, a source build may not.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_EXPANDED_NODES: Final = 1_000_000
"""Nodes that a document may have once its aliases are written out: beyond the largest record by far."""

_TAG: Final = "tag:yaml.org,2002:"


def parse_yaml(text: str, *, place: str) -> Any:
    """The JSON value of a text that holds one YAML document; None if it holds none.

    Args:
        text: The document, without a byte order mark.
        place: What errors call it, such as a path.

    Raises:
        InvalidInputError: Naming the place, the line, and what JSON lacks.
    """
    documents = parse_yaml_documents(text, place=place)
    if len(documents) > 1:
        raise InvalidInputError(f"{place}: holds more than one document.", hint="Remove the line ---.")
    return documents[0] if documents else None


def parse_yaml_documents(text: str, *, place: str) -> list[Any]:
    """The JSON values of all documents of a YAML text.

    Args:
        text: The documents, without a byte order mark.
        place: What errors call them, such as a path.

    Raises:
        InvalidInputError: Naming the place, the line, and what JSON lacks.
    """
    loader = _JsonLoader(text)
    documents: list[Any] = []
    try:
        while loader.check_node():
            node = loader.get_node()
            _check_expansion(node)
            documents.append(loader.construct_document(node))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{place}:{mark.line + 1}" if mark else place
        problem = getattr(error, "problem", None) or error
        raise InvalidInputError(
            f"{where}: not plain YAML: {problem}.", hint="Write what JSON can say; quote text."
        ) from None
    except RecursionError:
        raise InvalidInputError(f"{place}: nested too deeply.", hint="Flatten the document.") from None
    finally:
        loader.dispose()
    return documents


class _JsonLoader(_Base):  # type: ignore[misc]  # the base is chosen at import
    """A safe loader with the core schema's scalars and JSON's values."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  (PyYAML's own protocol)
    yaml_constructors: dict[str, Any] = {}  # noqa: RUF012  (as above)

    def construct_json_mapping(self, node: yaml.MappingNode) -> dict[Hashable, Any]:
        """An object with unique string names; ``<<`` merges as usual."""
        names: set[str] = set()
        for name_node, _ in node.value:
            if name_node.tag == f"{_TAG}merge":
                continue
            if name_node.tag != f"{_TAG}str":
                raise _refused("a name is not a string; quote it", name_node)
            if name_node.value in names:
                raise _refused(f"the name {name_node.value!r} stands twice", name_node)
            names.add(name_node.value)
        self.flatten_mapping(node)
        return {self.construct_object(name): self.construct_object(member, deep=True) for name, member in node.value}

    def construct_json_int(self, node: yaml.ScalarNode) -> int:
        """A decimal, ``0o`` octal or ``0x`` hexadecimal integer."""
        text = node.value
        if text.startswith(("0o", "0x")):
            return int(text, 0)
        if len(text) > 20:
            raise _refused("the integer is beyond 2^53-1; quote it", node)
        return int(text)

    def construct_json_float(self, node: yaml.ScalarNode) -> float:
        """A finite number."""
        try:
            return float(node.value)
        except ValueError:
            raise _refused(f"{node.value!r} is not a finite number", node) from None

    def refuse(self, node: yaml.Node) -> None:
        """Refuse a tag that JSON has no value for."""
        raise _refused(f"the tag {node.tag!r} has no JSON value", node)


def _refused(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _check_expansion(root: yaml.Node) -> None:
    """Refuse an alias to itself, and a document that its aliases blow up.

    Each node is counted once and its size reused, so what would expand to 10^9 nodes is refused in linear time.
    """
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            raise _refused("an alias contains itself", node)
        open_nodes.add(id(node))
        pairs = isinstance(node, yaml.MappingNode)
        total = 1 + sum(size(n) + size(m) for n, m in node.value) if pairs else 1 + sum(map(size, node.value))
        if total > _EXPANDED_NODES:
            raise _refused(f"the document has more than {_EXPANDED_NODES} nodes with its aliases written out", node)
        open_nodes.remove(id(node))
        sizes[id(node)] = total
        return total

    size(root)


def _setup() -> None:
    for name, pattern, first in (
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
        ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
        ("merge", r"<<", ["<"]),
    ):
        _JsonLoader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"(?:{pattern})\Z"), first)
    safe = yaml.SafeLoader
    for name, constructor in (
        ("null", safe.construct_yaml_null),
        ("bool", safe.construct_yaml_bool),
        ("int", _JsonLoader.construct_json_int),
        ("float", _JsonLoader.construct_json_float),
        ("str", safe.construct_yaml_str),
        ("map", _JsonLoader.construct_json_mapping),
        ("seq", lambda loader, node: loader.construct_sequence(node, deep=True)),
    ):
        _JsonLoader.add_constructor(f"{_TAG}{name}", constructor)
    _JsonLoader.add_constructor(None, _JsonLoader.refuse)


_setup()
