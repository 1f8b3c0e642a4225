"""Who owns a Baseline's pin, as the API server keeps it in `managedFields`.

A field of a resource goes when the last of its owners gives it up. So a pin that somebody set by hand, and that Git
adopted later, stays when Git removes it: nobody notices, and consolidation rests.
"""

from __future__ import annotations

from typing import Any, Final

MANAGER: Final = "anabranch-rollback"
"""The field manager of `anabranch baseline rollback`."""


def pin_owners(baseline: dict[str, Any]) -> list[str]:
    """The field managers that own ``spec.pin`` or a part of it, in the order in which they came.

    Args:
        baseline: In its JSON form, with its managed fields.
    """
    entries = baseline["metadata"].get("managedFields", ())
    owners = [entry["manager"] for entry in entries if "f:pin" in entry.get("fieldsV1", {}).get("f:spec", {})]
    return list(dict.fromkeys(owners))


def shared_pin(baseline: dict[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a pin that several own, and what mends it; None where nothing is.

    Args:
        baseline: As in `pin_owners`.
    """
    owners = pin_owners(baseline)
    if len(owners) < 2:
        return None
    metadata = baseline["metadata"]
    found = f"its pin is owned by {' and '.join(owners)}: it stays until each of them gives it up"
    if MANAGER in owners:
        return found, f"anabranch baseline rollback {metadata['name']} -n {metadata['namespace']} --release"
    return found, "remove spec.pin with all of them but one (kubectl apply --server-side --field-manager=…)"
