"""YAML as Kubernetes people write it: block style, the given order, one file always the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Dumper(yaml.SafeDumper):
    """Lists are indented below their key, and nothing is written as an alias."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def dump(documents: Iterable[dict[str, Any]]) -> str:
    """The documents as a YAML stream, `---` between them."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
