"""The names of an installation's databases: what a Baseline selects one by, and how a process is told of them.

A name is all that a Baseline says: addresses and passwords come from the process's own environment, where the chart
puts them by reference to Secrets.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from anabranch.model.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_STORE: Final = "default"
"""The one that is always there. Baselines lie in it that name no other, and so does what belongs to agents."""

STORE_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
STORE_CHARACTERS: Final = 32
"""Most of a name: it is part of the names of a Deployment and of a Lease."""

NAMES: Final = "ANABRANCH_STORES"
"""The variable that lists the others, with commas between."""

_NAME: Final = re.compile(STORE_PATTERN)


def named(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the databases besides the default one.

    Args:
        environment: Such as ``os.environ``.

    Raises:
        InvalidInputError: If one is none, or is there twice.
    """
    names = tuple(name.strip() for name in environment.get(NAMES, "").split(",") if name.strip())
    for name in names:
        if name == DEFAULT_STORE or names.count(name) > 1:
            raise InvalidInputError(
                f"{NAMES} has the name {name} twice.", hint=f"Name each once, and not {DEFAULT_STORE}, which is there."
            )
        if len(name) > STORE_CHARACTERS or not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"{name[:80]!r} is no name of a store.",
                hint=f"Take up to {STORE_CHARACTERS} lower-case letters, digits and hyphens.",
            )
    return names


def variable(name: str, what: str) -> str:
    """The environment variable that tells something of a database.

    Args:
        name: Of the database. No two names give the same variable: a name has no underscore.
        what: Such as ``API_DSN``.
    """
    return f"ANABRANCH_STORE_{name.upper().replace('-', '_')}_{what}"
