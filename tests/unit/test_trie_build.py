"""The bytes of descriptors and nodes, and whole tries: held against the vectors of an independent implementation."""

import hashlib
import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.domain.trie import (
    EMPTY_BODY,
    EMPTY_ROOT,
    LEAF_MAX,
    NULL_HASH,
    Child,
    CorruptNodeError,
    Descriptor,
    Inner,
    Leaf,
    build,
    key_hash,
    node_hash,
    parse,
    root_of,
    serialize,
)
from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text, sha256
from anabranch.model.errors import InvalidInputError

VECTORS = Path(__file__).parents[1] / "vectors"
CASES = sorted((VECTORS / "manifest_hash").glob("*.json"))


def descriptor_of(record):
    return Descriptor(
        key=record["key"],
        revision=int(record["revision"]),
        scope=record["scope"],
        content_hash=sha256(canonical_bytes(record["content"])),
        fact_hash=hash_bytes(record["fact_hash"]),
        tombstone=record["tombstone"],
    )


def numbered(count):
    return sorted((key_hash(f"key/{n}"), sha256(b"%d" % n)) for n in range(count))


def crowded(count):
    """Pairs whose key hashes share 62 nibbles: no real keys do, and the trie must be right all the same."""
    return [(bytes(31) + bytes([n]), sha256(b"%d" % n)) for n in range(count)]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_vectors_of_the_second_implementation_hold(path):
    vector = json.loads(path.read_text(encoding="utf-8"))
    descriptors = [descriptor_of(record) for record in vector["records"]]
    assert [one.hash.hex() for one in descriptors] == [record["descriptor_hash"] for record in vector["records"]]
    assert root_of(sorted(one.pair for one in descriptors)).hex() == vector["root"]


def test_vector_files_are_those_that_the_generator_writes():
    written = runpy.run_path(str(VECTORS / "generate.py"))["files"]()
    assert sorted(written) == CASES
    assert {path: path.read_text(encoding="utf-8") for path in CASES} == written


text = st.text(st.characters(exclude_categories=["Cs"]))
digest = st.binary(min_size=32, max_size=32)


descriptors = st.builds(
    Descriptor, key=text, revision=st.integers(0, 2**70), scope=text, content_hash=digest, fact_hash=digest
)
tombstones = descriptors.map(lambda one: replace(one, content_hash=NULL_HASH, tombstone=True))


@given(descriptors | tombstones)
def test_descriptor_bytes_are_rfc_8785(descriptor):
    assert descriptor.canonical() == canonical_bytes(
        {
            "key": descriptor.key,
            "revision": str(descriptor.revision),
            "scope": descriptor.scope,
            "content_hash": hash_text(descriptor.content_hash),
            "fact_hash": hash_text(descriptor.fact_hash),
            "tombstone": descriptor.tombstone,
        }
    )


def test_every_member_of_a_descriptor_changes_its_hash():
    given_members = {"key": "a", "revision": 1, "scope": "s", "content_hash": NULL_HASH, "fact_hash": bytes(32)}
    others = {"key": "b", "revision": 2, "scope": "t", "content_hash": bytes(32), "fact_hash": NULL_HASH}
    variants = [given_members | {name: other} for name, other in others.items()]
    hashes = {Descriptor(**members).hash for members in [given_members, given_members | {"tombstone": True}, *variants]}
    assert len(hashes) == 7


@pytest.mark.parametrize(
    "wrong",
    [{"content_hash": bytes(31)}, {"fact_hash": bytes(33)}, {"revision": -1}, {"tombstone": True}],
    ids=["short content hash", "long fact hash", "negative revision", "tombstone with content"],
)
def test_a_malformed_descriptor_is_refused(wrong):
    right = {"key": "a", "revision": 1, "scope": "s", "content_hash": bytes(32), "fact_hash": bytes(32)}
    with pytest.raises(InvalidInputError):
        Descriptor(**right | wrong)


def test_hashes_of_the_kinds_are_separated():
    pairs = numbered(1)
    body = serialize(Leaf(tuple(pairs)))
    assert node_hash(body) == hashlib.sha256(b"anabranch.trie.leaf.v1\0" + body).digest()
    assert hashlib.sha256(b"anabranch.trie.empty.v1\0").digest() == EMPTY_ROOT
    assert node_hash(b"\x02" + body[1:]) != node_hash(body)


def test_an_empty_trie_is_one_empty_root():
    assert list(build([])) == [("", EMPTY_BODY, EMPTY_ROOT)]
    assert parse(EMPTY_BODY) == Leaf()


@pytest.mark.parametrize("pairs", [numbered, crowded])
def test_64_descriptors_are_a_leaf_and_65_are_not(pairs):
    assert [node.path for node in build(pairs(LEAF_MAX))] == [""]
    *_, root = build(pairs(LEAF_MAX + 1))
    inner = parse(root.body)
    assert isinstance(inner, Inner)
    assert inner.count == LEAF_MAX + 1


def test_crowded_keys_make_a_chain_down_to_where_they_part():
    nodes = {node.path: parse(node.body, path=node.path) for node in build(crowded(65))}
    assert {path for path, node in nodes.items() if isinstance(node, Inner)} == {"0" * depth for depth in range(63)}
    assert {path: node.count for path, node in nodes.items() if isinstance(node, Leaf)} == {
        "0" * 62 + digit: 1 if digit == "4" else 16 for digit in "01234"
    }


def test_a_build_across_many_blocks_yields_children_before_parents_and_the_root_last():
    nodes = list(build(numbered(9_000)))
    seen = {}
    for node in nodes:
        assert node.hash == node_hash(node.body)
        parsed = parse(node.body, path=node.path)
        if isinstance(parsed, Inner):
            below = {nibble: seen.pop(f"{node.path}{nibble:x}") for nibble in parsed.children}
            assert below == dict(parsed.children)
        seen[node.path] = Child(parsed.count, node.hash)
    assert seen == {"": Child(9_000, nodes[-1].hash)}


def test_a_build_reads_no_further_ahead_than_a_block():
    read = 0

    def pairs():
        nonlocal read
        for read, pair in enumerate(numbered(20_000), 1):  # noqa: B007  (the count is what is watched)
            yield pair

    next(build(pairs()))
    assert read <= 4_096


@pytest.mark.parametrize("at", [3, 4_096, 8_999])
@pytest.mark.parametrize("fault", ["twice", "swapped"])
def test_pairs_out_of_order_are_refused_wherever_they_are(at, fault):
    pairs = numbered(9_000)
    pairs[at] = pairs[at - 1] if fault == "twice" else pairs[at - 2]
    with pytest.raises(InvalidInputError, match="out of order"):
        root_of(pairs)


def test_a_partial_export_with_withheld_pairs_gives_the_full_root():
    records = [
        Descriptor(
            key=f"key/{n}",
            revision=n,
            scope="secret" if n % 3 else "shared",
            content_hash=sha256(b"%d" % n),
            fact_hash=bytes(32),
        )
        for n in range(500)
    ]
    carried = [one for one in records if one.scope == "shared"]
    withheld = [one.pair for one in records if one.scope == "secret"]
    root = root_of(sorted(one.pair for one in records))
    assert root_of(sorted([*withheld, *(one.pair for one in carried)])) == root
    assert root_of(sorted([*withheld[1:], *(one.pair for one in carried)])) != root


LEAF_BODY = serialize(Leaf(tuple(numbered(3))))
INNER_BODY = list(build(numbered(100)))[-1].body


@pytest.mark.parametrize(
    ("body", "path", "reason"),
    [
        (b"\x03", "", "unknown kind"),
        (EMPTY_BODY, "a", "empty below the root"),
        (b"\x01", "", "leaf of 1 bytes"),
        (LEAF_BODY[:-1], "", "leaf of 192 bytes"),
        (serialize(Leaf(tuple(numbered(65)))), "", "leaf of 4161 bytes"),
        (serialize(Leaf(tuple(numbered(3)[::-1]))), "", "out of order"),
        (serialize(Leaf((numbered(1)[0],) * 2)), "", "out of order"),
        (serialize(Leaf(((b"\xaa" * 32, bytes(32)), (b"\xbb" * 32, bytes(32))))), "a", "another path"),
        (serialize(Leaf(((b"\x01" * 32, bytes(32)), (b"\xaa" * 32, bytes(32))))), "a", "another path"),
        (b"\x02\x00", "", "torn"),
        (INNER_BODY[:-1], "", "number of children"),
        (INNER_BODY + b"\0", "", "number of children"),
        (INNER_BODY, "0" * 64, "below the last nibble"),
        (serialize(Inner({1: Child(64, bytes(32))})), "", "too few"),
        (serialize(Inner({1: Child(65, bytes(32)), 2: Child(0, bytes(32))})), "", "too few"),
    ],
)
def test_a_body_that_breaks_a_rule_is_refused(body, path, reason):
    with pytest.raises(CorruptNodeError, match=reason):
        parse(body, path=path)


def test_no_hash_is_taken_of_an_unknown_kind():
    with pytest.raises(CorruptNodeError, match="unknown kind"):
        node_hash(b"\x07")


def test_parsing_and_serializing_a_node_gives_its_bytes():
    for node in build(numbered(300)):
        assert serialize(parse(node.body, path=node.path)) == node.body
