"""What an import does with a directory: which files it leaves out, and in which scope each record goes.

Settings stand in the directory itself (``.anabranch.yaml``), because they belong to the knowledge: whoever imports it,
from whichever machine, must get the same archive.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, Self

from anabranch.domain.documents.strict_yaml import parse_yaml
from anabranch.model.errors import InvalidInputError
from anabranch.model.text import check_scope

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SETTINGS_FILE: Final = ".anabranch.yaml"
DEFAULT_SCOPE: Final = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """How to import one directory.

    Attributes:
        scope: Of records for which nothing else names one.
        scopes: Scope by path prefix (``runbooks/ci`` means that folder, or that file); the longest match counts.
        ignore: Shell patterns of paths to leave out; ``*`` also matches ``/``.
    """

    scope: str = DEFAULT_SCOPE
    scopes: Mapping[str, str] = field(default_factory=dict)
    ignore: tuple[str, ...] = ()

    @classmethod
    def load(cls, root: Path) -> Self:
        """The settings of a directory: those of its ``.anabranch.yaml``, else the defaults.

        Raises:
            InvalidInputError: If the file says what an import does not understand.
        """
        try:
            text = (root / SETTINGS_FILE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return cls()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"{SETTINGS_FILE} cannot be read: {error}.", hint="Mend the file.") from None
        return cls(**_members(parse_yaml(text, place=SETTINGS_FILE)))

    def override(self, *, scope: str | None = None, scopes: Mapping[str, str] | None = None) -> Self:
        """These settings with what a command line says on top.

        Raises:
            InvalidInputError: If a scope is ill-formed.
        """
        added = {_prefix(prefix): check_scope(name) for prefix, name in (scopes or {}).items()}
        return replace(self, scope=self.scope if scope is None else check_scope(scope), scopes={**self.scopes, **added})

    def scope_of(self, path: str) -> str:
        """The scope of a path's records, where the document names none."""
        matching = [prefix for prefix in self.scopes if path == prefix or path.startswith(f"{prefix}/")]
        return self.scopes[max(matching, key=len)] if matching else self.scope

    def ignores(self, path: str) -> bool:
        """Whether a file is left out."""
        return any(fnmatchcase(path, pattern) for pattern in self.ignore)


def _members(value: Any) -> dict[str, Any]:
    """The settings' fields of what the file says, checked."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"{SETTINGS_FILE} is no object.", hint="Write scope:, scopes: and ignore:.")
    if unknown := sorted(value.keys() - {"scope", "scopes", "ignore"}):
        raise InvalidInputError(f"{SETTINGS_FILE} has no {unknown[0]!r}.", hint="Use scope, scopes and ignore.")
    members: dict[str, Any] = {}
    if "scope" in value:
        members["scope"] = check_scope(value["scope"])
    if "scopes" in value:
        if not isinstance(value["scopes"], dict):
            raise InvalidInputError(f"{SETTINGS_FILE}: scopes is no object.", hint="Write <path prefix>: <scope>.")
        members["scopes"] = {
            _prefix(prefix): check_scope(scope, field=f"scopes.{prefix}") for prefix, scope in value["scopes"].items()
        }
    if "ignore" in value:
        patterns = value["ignore"]
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise InvalidInputError(f"{SETTINGS_FILE}: ignore is no list of texts.", hint="Write a list of patterns.")
        members["ignore"] = tuple(patterns)
    return members


def _prefix(path: str) -> str:
    return path.strip("/")
