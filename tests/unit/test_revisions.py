"""A revision that no table could hold is refused where it comes in, before anything is acknowledged."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from anabranch.model.crd import base
from anabranch.model.errors import InvalidInputError
from anabranch.model.locators import parse_locator
from anabranch.model.wire import Revision

TOO_LARGE = str(2**63)
LARGEST = "9" * 18


@pytest.mark.parametrize("kind", [Revision, base.Revision], ids=["wire", "resource"])
def test_a_revision_beyond_what_the_store_counts_is_refused(kind):
    assert TypeAdapter(kind).validate_python(LARGEST) == LARGEST
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(TOO_LARGE)


def test_a_locator_of_a_revision_beyond_what_the_store_counts_is_refused():
    assert parse_locator(f"record:key@{LARGEST}").kind == "record"
    with pytest.raises(InvalidInputError):
        parse_locator(f"record:key@{TOO_LARGE}")
