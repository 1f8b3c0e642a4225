"""What the agents of the story find out about the records of ``examples/platform-team``.

The causes and versions follow from that knowledge itself: the service catalogue says how payments links and in which
pool, decision 6 what the other way of linking takes, and the toolchain pins what the setup guide has wrong.
"""

from __future__ import annotations

from typing import Final

FAILURE: Final = "runbooks/build-failures#linker-killed-exit-137-in-the-payments-service-build"
PREREQUISITES: Final = "setup/local-environment#prerequisites"

NOTE: Final = {"text": "Hunch: Rust 1.84 came the day before. Compare the pool's memory with what the linker takes."}

EVIDENCE: Final = b"""\
2025-03-11T09:14:02Z runner medium-7 job payments/release-build memory.max 8589934592
2025-03-11T09:21:47Z ld: fat link-time optimization of 214 crates, resident 7.9 GiB and growing
2025-03-11T09:21:48Z kernel: Memory cgroup out of memory: Killed process 4127 (ld)
2025-03-11T11:02:30Z runner large-2 job payments/release-build memory.max 17179869184
2025-03-11T11:13:05Z ld: finished, peak resident 8.6 GiB
"""

FIX: Final = {
    "title": "Linker killed (exit 137) in the payments service build",
    "text": "Cause: since Rust 1.84 the fat link-time optimization of payments peaks at 8.6 GiB, and the pool\n"
    "`medium` ends a job at 8 GiB. Set `pool: large` for that job. All of twenty builds since passed.",
}

RIVAL_EVIDENCE: Final = b"""\
payments/release-build with lto = "thin": peak resident of ld 3.4 GiB, passed 12 of 12 in pool medium, p99 +0.6 %
"""

RIVAL_FIX: Final = {
    "title": "Linker killed (exit 137) in the payments service build",
    "text": "Link payments with thin link-time optimization, as the ledger does since December: the linker then\n"
    'peaks at 3.4 GiB, and the job stays in the pool `medium`. Set `lto = "thin"`; latency at p99 rises by 0.6 %.',
}

GUIDE_EVIDENCE: Final = b"""\
$ larkctl doctor --versions
python 3.11.11 ok   node 22.13 ok   rust 1.84 ok   go 1.23 ok
"""

GUIDE: Final = {
    "title": "Prerequisites",
    "text": "- 16 GiB of memory, 60 GiB of free disk\n- a container engine with compose support\n"
    "- Python 3.11, Node 22, Rust 1.84, Go 1.23\n"
    "- `larkctl`, our own command, from the internal package index: `pipx install larkctl`\n\n"
    "Check all of them with `larkctl doctor`.",
}

LATE_KEY: Final = "setup/local-environment#proxy-certificates"
LATE: Final = {
    "title": "Proxy certificates",
    "text": "Behind the office proxy, run `larkctl trust` once: it adds the certificate to the container engine.",
}
