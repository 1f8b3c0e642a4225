"""`python -m anabranch.manifests.generate`: write `crds/` from the models, or check that it is what they say."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from anabranch.manifests.crds import crds
from anabranch.manifests.yaml import dump

HEADER: Final = "# Generated from operator/anabranch/model/crd by `make generate`. Change it there.\n"


def files() -> dict[str, str]:
    """The generated files, as name and text."""
    return {f"{crd['spec']['names']['plural']}.yaml": HEADER + dump([crd]) for crd in crds()}


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file differs from what would be written.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("crds"),
    show_default=True,
    help="Where the files stand.",
)
def main(*, check: bool, folder: Path) -> None:
    """Write the CustomResourceDefinitions from the models."""
    wanted = files()
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))}
    if check:
        drifted = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        if drifted:
            click.echo(f"{folder}: not what the models say: {', '.join(drifted)}. Run `make generate`.", err=True)
            sys.exit(1)
        return
    folder.mkdir(parents=True, exist_ok=True)
    for name in found.keys() - wanted.keys():
        (folder / name).unlink()
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
