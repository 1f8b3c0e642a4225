"""A batch over HTTP until it is durably acknowledged, while traces are recorded, next to the same while none are.

Both sides are the API as `acknowledgement` has it. Ours exports spans by OTLP over HTTP to a collector that keeps none,
a process of its own on the same two cores; its peer has no collector named, and so loads nothing of OpenTelemetry. The
callers name no trace, so the ratio alone decides: a hundredth of the requests, and all of them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from benchmarks import serving
from benchmarks.acknowledgement import CLIENTS, FINDINGS, PATH, acknowledged, middle
from benchmarks.measure import Row, interleaved

if TYPE_CHECKING:
    from benchmarks.stage import Stage

NAME = "tracing"
SHARES = (("1 %", "0.01"), ("100 %", "1"))


async def run(stage: Stage, *, quick: bool) -> list[Row]:
    """Measure."""
    batches = 30 if quick else 300
    line = await stage.new_line(1_000)
    rows = []
    async with serving.opened(stage, agents=CLIENTS) as servers:
        collector = await servers.collector()
        silent = await servers.api(line.dsn)

        async def measured(port: int) -> float:
            found = await acknowledged(stage, line, servers.agents, port=port, path=PATH, batches=batches)
            return found.rate

        for words, share in SHARES:
            recording = await servers.api(
                line.dsn,
                "recording",
                OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector}",
                OTEL_TRACES_SAMPLER="parentbased_traceidratio",
                OTEL_TRACES_SAMPLER_ARG=share,
            )

            compared = await interleaved(partial(measured, recording), partial(measured, silent))
            rows.append(
                Row(
                    name=f"{NAME}_{share.replace('.', '_')}",
                    work=f"durable batch acknowledgement over HTTP, {CLIENTS} clients, {FINDINGS} findings a batch, "
                    f"{words} of requests traced",
                    peer="the same without tracing",
                    bar="-",
                    ratio=compared.ratio,
                    spread=compared.spread,
                    reached=True,
                    figures={"per_s": middle(compared.ours), "peer_per_s": middle(compared.peer)},
                )
            )
    return rows
