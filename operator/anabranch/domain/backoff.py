"""How long to wait before the next try."""

from __future__ import annotations


def delay(attempt: int, *, chance: float, base: float = 1.0, limit: float = 300.0) -> float:
    """Seconds until the next try: doubled with each attempt up to a limit, and spread.

    The lower half is fixed and the upper half is chance, so that jobs which failed together (a database was away) come
    back spread out, and yet never at once.

    Args:
        attempt: Tries that have failed so far, from 1.
        chance: A random number from 0 to 1; the caller's, so that this stays a function of values.
        base: Seconds after the first failure, at most.
        limit: Seconds at most, however many failures.
    """
    # Beyond 2^32 the limit has long been reached; the bound keeps the power a small number.
    longest = min(limit, base * 2.0 ** min(max(attempt, 1) - 1, 32))
    return longest / 2 * (1 + chance)
