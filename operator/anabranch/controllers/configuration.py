"""The operator's own configuration file: what findings may cite, which models may be asked, where backups go, by name.

Nothing that a Baseline says is an address or a credential; it selects one of these names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import yaml
from pydantic import Field

from anabranch.backup.config import BackupTarget, TargetName  # noqa: TC001  (pydantic evaluates the annotations)
from anabranch.consolidation.sources import SourcesConfig
from anabranch.consolidation.sources.config import EntryName  # noqa: TC001  (pydantic evaluates the annotations)
from anabranch.model.errors import InvalidInputError
from anabranch.proposals.config import ModelEndpoint  # noqa: TC001  (pydantic evaluates the annotations)

if TYPE_CHECKING:
    from pathlib import Path


class Configuration(SourcesConfig):
    """All of the file."""

    models: dict[EntryName, ModelEndpoint] = Field(default_factory=dict)
    backup_targets: dict[TargetName, BackupTarget] = Field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> Self:
        """The configuration of a YAML file; without one it is empty.

        Raises:
            InvalidInputError: Naming the entry and what is wrong with it, or why the file cannot be read.
        """
        if path is None:
            return cls()
        try:
            document = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError) as error:
            raise InvalidInputError(
                f"The configuration {path} cannot be read: {error}.", hint="Mend the file, or leave it out."
            ) from error
        return cls.parse(document)
