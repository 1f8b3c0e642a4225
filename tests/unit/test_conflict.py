from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.conflict import assess


@dataclass(frozen=True)
class Finding:
    op: str = "put"
    scope: str = "shared"
    content_hash: bytes = b"new"
    base_revision: int = 0


@dataclass(frozen=True)
class Record:
    revision: int = 7
    scope: str = "shared"
    content_hash: bytes = b"old"
    tombstone: bool = False


DELETED = Record(content_hash=b"null", tombstone=True)


@pytest.mark.parametrize(
    ("finding", "record", "kind", "reason"),
    [
        (Finding(), None, "clean", ""),
        (Finding(base_revision=3), None, "conflict", "BaseRevisionUnknown"),
        (Finding(base_revision=7), Record(), "clean", ""),
        (Finding(base_revision=6), Record(), "conflict", "BaseRevisionSuperseded"),
        (Finding(base_revision=8), Record(), "conflict", "BaseRevisionSuperseded"),
        (Finding(), Record(), "conflict", "KeyExists"),
        (Finding(), DELETED, "conflict", "KeyDeleted"),
        (Finding(base_revision=5), DELETED, "conflict", "KeyDeleted"),
        (Finding(base_revision=7), DELETED, "clean", ""),
        (Finding(op="tombstone", base_revision=7), Record(), "clean", ""),
        (Finding(op="tombstone", base_revision=6), Record(), "conflict", "BaseRevisionSuperseded"),
        (Finding(op="tombstone"), None, "same", ""),
        (Finding(op="tombstone", base_revision=2), DELETED, "same", ""),
    ],
)
def test_the_base_revision_decides(finding, record, kind, reason):
    assessment = assess(finding, record)

    assert (assessment.kind, assessment.reason) == (kind, reason)


def test_a_stale_base_with_the_canonical_content_is_no_conflict():
    assert assess(Finding(content_hash=b"old", base_revision=2), Record()).kind == "same"


def test_equal_content_in_another_scope_is_another_statement():
    finding = Finding(content_hash=b"old", base_revision=2, scope="team/build")

    assert assess(finding, Record()).kind == "conflict"


def test_null_as_content_is_not_the_deletion_that_hashes_alike():
    assert assess(Finding(content_hash=b"null", base_revision=2), DELETED).kind == "conflict"


def test_the_detail_names_both_revisions():
    assert assess(Finding(base_revision=6), Record()).detail == "it builds on revision 6; the record is at revision 7"
    assert assess(Finding(), DELETED).detail == "it builds on no record; revision 7 deleted the key"


@given(
    op=st.sampled_from(["put", "tombstone"]),
    base=st.integers(0, 4),
    content=st.sampled_from([b"a", b"b"]),
    scope=st.sampled_from(["shared", "team/build"]),
    record=st.none()
    | st.builds(
        Record,
        revision=st.integers(1, 4),
        content_hash=st.sampled_from([b"a", b"b"]),
        scope=st.sampled_from(["shared", "team/build"]),
        tombstone=st.booleans(),
    ),
)
def test_whatever_replaces_other_content_unreviewed_named_its_revision(op, base, content, scope, record):
    finding = Finding(op=op, base_revision=base, content_hash=content, scope=scope)

    assessment = assess(finding, record)

    if assessment.kind == "clean":
        assert base == (record.revision if record else 0)
    assert (assessment.reason != "") == (assessment.kind == "conflict")
