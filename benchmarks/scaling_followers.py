"""How deliveries take to more followers of one API process: from ten streams to as many as a process takes.

As in `following`, without its peer: 50 identities at most, whose grants are asked about again meanwhile; a publication
is one changed record, and each is delivered to all. A process takes 4,000 streams (`anabranch.feed.live`) and refuses
more, so the curve ends there; they are 80 of each identity, far from the 3,000 that it takes of one name.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from anabranch.devcluster.processes import Processes
from anabranch.feed import live
from benchmarks import following, points, serving

if TYPE_CHECKING:
    from benchmarks.measure import Row
    from benchmarks.stage import Stage

NAME = "scaling-followers"
FOLLOWERS, QUICK = (10, 100, 1_000, live.FOLLOWERS), (5, 10)
PROBES, QUICK_PROBES, ROUNDS = 100, 5, 3


async def run(place: Stage, *, quick: bool) -> list[Row]:
    """Measure with each number."""
    line = await place.new_line(1_000)
    numbers = iter(range(1, 1_000_000))
    over, probes, rounds = (QUICK, QUICK_PROBES, 1) if quick else (FOLLOWERS, PROBES, ROUNDS)
    async with serving.opened(place, agents=min(following.AGENTS, over[-1])) as servers:

        async def followed(followers: int) -> dict[str, float]:
            found = []
            for _ in range(rounds):
                port = await servers.api(line.dsn)  # anew: memory of earlier streams would hide what these take
                process = Processes(servers.folder).running("api")
                if process is None:
                    raise RuntimeError("the API has ended")
                some = following.Listening(
                    port=port,
                    greetings=await following.streams_of(servers, line, followers),
                    heard=b"event: bookmark",
                    process=process,
                )
                publish = following.publishing(line)
                found.append(
                    await following.delivered(place.folder, some, publish, [next(numbers) for _ in range(probes)])
                )
            return {
                "followers": followers,
                "delivered_ms_p50": statistics.median(quantiles[49] for quantiles, _ in found),
                "delivered_ms_p99": statistics.median(quantiles[98] for quantiles, _ in found),
                "kib_a_follower": statistics.median(kib for _, kib in found),
            }

        found = await points.measured(NAME, place.dsn, over, followed, quick=quick)
    return [
        points.row(
            "scaling-delivery",
            "publication to delivery by SSE, by followers of one API process",
            found,
            "followers",
            "delivered_ms_p50",
            "delivered_ms_p99",
        ),
        points.row(
            "scaling-streams",
            "memory of a stream in the API, its share of what the first ones load included, by followers",
            found,
            "followers",
            "kib_a_follower",
        ),
    ]
