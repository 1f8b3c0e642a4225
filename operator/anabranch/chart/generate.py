"""`python -m anabranch.chart.generate`: write the chart's generated half, or check that it is what the code says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from anabranch.chart import reference, templates

CHART: Final = Path("charts/anabranch")
TEMPLATES: Final = CHART / "templates/generated"


def files() -> dict[Path, str]:
    """The generated files and their text, from the repository's root."""
    return {
        CHART / "values.schema.json": reference.schema(),
        CHART / "values.yaml": reference.defaults(),
        Path("docs/values.md"): reference.page(),
        **{TEMPLATES / name: content for name, content in templates.files().items()},
    }


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file differs from what would be written.")
def main(*, check: bool) -> None:
    """Write what the chart shares with the code."""
    wanted = files()
    found = {path: path.read_text(encoding="utf-8") for path in {*wanted, *TEMPLATES.glob("*")} if path.exists()}
    drifted = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    if check and drifted:
        click.echo(f"Not what the code says: {', '.join(map(str, drifted))}. Run `make generate`.", err=True)
        sys.exit(1)
    for path in drifted:
        if path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()


if __name__ == "__main__":
    main()
