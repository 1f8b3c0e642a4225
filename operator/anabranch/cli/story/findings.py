"""What the agents of the story find out: real text about the records of ``examples/platform-team``."""

from __future__ import annotations

from typing import Final

FAILURE: Final = "runbooks/build-failures#linker-killed-exit-137-in-the-payments-service-build"
PREREQUISITES: Final = "setup/local-environment#prerequisites"

NOTE: Final = {"text": "Hunch: the release job asks for pool `small`. Compare its memory limit with the linker's peak."}

EVIDENCE: Final = b"""\
2025-03-11T09:14:02Z runner small-7 job payments/release-build memory.max 4294967296
2025-03-11T09:21:47Z ld: link-time optimization, peak resident 5.1 GiB
2025-03-11T09:21:48Z kernel: Memory cgroup out of memory: Killed process 4127 (ld)
2025-03-11T11:02:30Z runner large-2 job payments/release-build memory.max 17179869184
2025-03-11T11:10:05Z ld: finished, peak resident 5.2 GiB
"""

FIX: Final = {
    "title": "Linker killed (exit 137) in the payments service build",
    "text": "Cause found: the release build links with link-time optimization, which peaks at 5.2 GiB, and runs in\n"
    "the pool `small`, whose limit is 4 GiB. Set `pool: large` in the job's settings. Twenty builds in a row\n"
    "passed since.",
}

RIVAL_EVIDENCE: Final = b"""\
payments/release-build with codegen-units=4: peak resident of ld 3.4 GiB, passed 12 of 12 in pool small
"""

RIVAL_FIX: Final = {
    "title": "Linker killed (exit 137) in the payments service build",
    "text": "Build with `codegen-units=4`: the linker then peaks at 3.4 GiB, and the job stays in the pool `small`,\n"
    "which costs a third of `large`.",
}

GUIDE_EVIDENCE: Final = b"""\
$ larkctl doctor --versions
python 3.12.8 ok   node 22.13 ok   rust 1.84 ok   go 1.23 ok
"""

GUIDE: Final = {
    "title": "Prerequisites",
    "text": "- 16 GiB of memory, 60 GiB of free disk\n- a container engine with compose support\n"
    "- Python 3.12, Node 22, Rust 1.84, Go 1.23\n"
    "- `larkctl`, our own command, from the internal package index: `pipx install larkctl`\n\n"
    "Check all of them with `larkctl doctor`.",
}

LATE_KEY: Final = "setup/local-environment#proxy-certificates"
LATE: Final = {
    "title": "Proxy certificates",
    "text": "Behind the office proxy, run `larkctl trust` once: it adds the certificate to the container engine.",
}
