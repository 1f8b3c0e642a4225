"""``python -m anabranch.telemetry.reference``: write docs/spec/metrics.md from what is declared, or check it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from anabranch.telemetry.common import COMMON
from anabranch.telemetry.of_api import API
from anabranch.telemetry.of_operator import OPERATOR, WAITING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anabranch.telemetry.declaring import Declared, Metrics

PAGE: Final = Path("docs/spec/metrics.md")
GROUPS: Final = (API, OPERATOR, WAITING, COMMON)

_HEAD: Final = """\
<!-- Generated from operator/anabranch/telemetry by `make generate`. Change it there. -->
# Metrics

Both processes answer `GET /metrics` on the inner port, in the text format of Prometheus: `--health-port`, and 8081 in
the chart's pods. The same port answers `/healthz` and `/readyz`, with what is wrong in JSON. It is meant
for the cluster alone.

Names and labels are an interface: they change with a note in the changelog. Times are seconds, sizes bytes. No label
holds what an agent wrote: a route is a template such as `/v1/namespaces/{namespace}/branches/{branch}/batches`, a
reason is the name of an error. Only `anabranch_feed_line_lag_events` names Baselines, twenty at most a process; nothing
names branches, which come and go.

What waits in Postgres is the same for all processes, so only the leader tells it: it looks every 15 s, however often it
is scraped. A process that does not lead has no such series.
"""


def page() -> str:
    """The page."""
    return _HEAD + "".join(_section(group) for group in GROUPS)


def declared() -> Iterator[Declared]:
    """Every metric of both processes."""
    for group in GROUPS:
        yield from group.declared


def _section(metrics: Metrics) -> str:
    rows = "".join(
        f"| `{each.name}` | {each.type} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n"
        for each in metrics.declared
    )
    return f"\n## {metrics.title}\n\n| metric | type | labels | tells |\n| --- | --- | --- | --- |\n{rows}"


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if the page differs from what would be written.")
def main(*, check: bool) -> None:
    """Write the page of metrics."""
    wanted = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return
    if check:
        click.echo(f"Not what the code says: {PAGE}. Run `make generate`.", err=True)
        sys.exit(1)
    PAGE.write_text(wanted, encoding="utf-8")


if __name__ == "__main__":
    main()
