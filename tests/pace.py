"""How long what the product promises in seconds may take in a test, on a machine that has other work to do.

A promise such as "a revoked grant ends a stream within five seconds" is about a machine that is not starved; a test run
has none to itself: its other half runs on the next core, and whoever started it may build something beside it.
"""

from __future__ import annotations

import os


def allowed(seconds: float) -> float:
    """Seconds that a promised time may take now: longer by as much as there are more who want to run than cores."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
