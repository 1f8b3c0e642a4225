"""Proofs of presence and absence: each holds, and no change of proof, key, record or root passes."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from anabranch.domain.trie import (
    EMPTY_ROOT,
    Child,
    Descriptor,
    Inner,
    InvalidProofError,
    MissingNodesError,
    Proof,
    build,
    key_hash,
    node_hash,
    parse,
    prefixes,
    prove,
    serialize,
    verify,
)
from anabranch.model.canonical import canonical_bytes, hash_bytes, sha256

CASES = sorted((Path(__file__).parents[1] / "vectors" / "manifest_hash").glob("*.json"))


def record(n, **members):
    members = {"revision": n, "scope": "shared", "content_hash": sha256(b"%d" % n), "fact_hash": bytes(32)} | members
    return Descriptor(key=f"key/{n}", **members)


def trie(count):
    nodes = list(build(sorted(record(n).pair for n in range(count))))
    return {node.path: node.body for node in nodes}, nodes[-1].hash


NODES, ROOT = trie(400)


@settings(deadline=None)
@given(st.integers(0, 300), st.integers(0, 400))
def test_whatever_holds_is_provable(count, n):
    nodes, root = trie(count)
    fetched = {path: nodes[path] for path in prefixes([record(n).key_hash]) if path in nodes}
    proof = prove(fetched, record(n).key_hash)
    present = n < count
    verify(proof, key=f"key/{n}", descriptor=record(n) if present else None, root=root)
    with pytest.raises(InvalidProofError, match="has the key" if present else "has not the key"):
        verify(proof, key=f"key/{n}", descriptor=None if present else record(n), root=root)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 500), st.integers(0), st.integers(0, 7))
def test_a_proof_with_any_bit_turned_fails(n, at, bit):
    proof = prove(NODES, record(n).key_hash)
    bodies = [bytearray.fromhex(body) for body in proof.nodes]
    at %= sum(map(len, bodies))
    for body in bodies:
        if at < len(body):
            body[at] ^= 1 << bit
            break
        at -= len(body)
    forged = Proof(nodes=tuple(body.hex() for body in bodies))
    for claim in (record(n), None):
        with pytest.raises(InvalidProofError):
            verify(forged, key=f"key/{n}", descriptor=claim, root=ROOT)


@pytest.mark.parametrize(
    "members",
    [{"revision": 8}, {"scope": "team/a"}, {"content_hash": bytes(32)}, {"fact_hash": sha256(b"")}],
    ids=lambda members: next(iter(members)),
)
def test_a_record_that_differs_in_any_member_fails(members):
    proof = prove(NODES, record(7).key_hash)
    with pytest.raises(InvalidProofError, match="another record"):
        verify(proof, key="key/7", descriptor=record(7, **members), root=ROOT)


def test_a_tombstone_is_proven_present():
    content = sha256(canonical_bytes(None))
    gone = record(1, content_hash=content, tombstone=True)
    *_, root = nodes = list(build([gone.pair]))
    proof = prove({node.path: node.body for node in nodes}, gone.key_hash)
    verify(proof, key="key/1", descriptor=gone, root=root.hash)
    with pytest.raises(InvalidProofError, match="another record"):
        verify(proof, key="key/1", descriptor=record(1, content_hash=content), root=root.hash)


def test_a_proof_fails_for_another_root_key_or_descriptor():
    proof = prove(NODES, record(7).key_hash)
    with pytest.raises(InvalidProofError, match="depth 0 has another hash"):
        verify(proof, key="key/7", descriptor=record(7), root=trie(399)[1])
    with pytest.raises(InvalidProofError, match="of the key 'key/7'"):
        verify(proof, key="key/8", descriptor=record(7), root=ROOT)
    with pytest.raises(InvalidProofError):
        verify(proof, key="key/8", descriptor=record(8), root=ROOT)


def test_a_path_cut_short_proves_no_absence():
    proof = prove(NODES, record(7).key_hash)
    assert len(proof.nodes) > 1
    with pytest.raises(InvalidProofError, match="before the end"):
        verify(Proof(nodes=proof.nodes[:-1]), key="key/7", descriptor=None, root=ROOT)


def test_nodes_after_the_end_of_the_path_fail():
    proof = prove(NODES, record(7).key_hash)
    with pytest.raises(InvalidProofError, match="follow after the end"):
        verify(Proof(nodes=(*proof.nodes, proof.nodes[-1])), key="key/7", descriptor=record(7), root=ROOT)


def test_absence_is_proven_by_an_inner_node_without_that_child():
    nodes = list(build(sorted((bytes([0, n]) + bytes(30), bytes(32)) for n in range(65))))
    absent = next(f"key/{n}" for n in range(99) if key_hash(f"key/{n}")[0] >= 0x10)
    proof = prove({node.path: node.body for node in nodes}, key_hash(absent))
    assert len(proof.nodes) == 1
    verify(proof, key=absent, descriptor=None, root=nodes[-1].hash)


def test_a_leaf_of_another_path_proves_nothing_even_under_a_root_that_has_its_hash():
    leaf = next(body for path, body in NODES.items() if path and not record(7).key_hash.hex().startswith(path))
    stolen = Child(parse(leaf).count, node_hash(leaf))
    root = serialize(Inner(dict.fromkeys(range(16), stolen)))
    with pytest.raises(InvalidProofError, match="another path"):
        verify(Proof(nodes=(root.hex(), leaf.hex())), key="key/7", descriptor=None, root=node_hash(root))


def test_a_count_that_the_node_below_does_not_have_fails():
    proof = prove(NODES, record(7).key_hash)
    inner = parse(bytes.fromhex(proof.nodes[0]))
    raised = {nibble: Child(child.count + 1, child.hash) for nibble, child in inner.children.items()}
    root = serialize(Inner(raised))
    with pytest.raises(InvalidProofError, match="depth 1 has another count"):
        verify(Proof(nodes=(root.hex(), *proof.nodes[1:])), key="key/7", descriptor=record(7), root=node_hash(root))


def test_a_proof_names_no_key():
    wire = prove(NODES, record(7).key_hash).model_dump_json()
    assert set(json.loads(wire)) == {"format", "nodes"}
    assert Proof.model_validate_json(wire) == prove(NODES, record(7).key_hash)
    assert not any(bytes(f"key/{n}", "ascii").hex() in wire for n in range(400))


def test_a_proof_over_unfetched_nodes_names_them():
    with pytest.raises(MissingNodesError) as caught:
        prove({"": NODES[""]}, record(7).key_hash)
    assert caught.value.paths == {record(7).key_hash.hex()[:1]}


@pytest.mark.parametrize(
    "wire",
    [
        {"nodes": []},
        {"nodes": [""] * 66},
        {"nodes": ["0"]},
        {"nodes": ["0G"]},
        {"nodes": ["AB"]},
        {"nodes": ["00" * 4098]},
        {"nodes": [""], "key": "a"},
        {"nodes": [""], "format": "anabranch.proof.v2"},
    ],
)
def test_a_malformed_proof_is_refused_before_it_is_read(wire):
    with pytest.raises(ValidationError):
        Proof.model_validate(wire)


def test_an_empty_manifest_has_no_key():
    verify(Proof(nodes=("",)), key="any", descriptor=None, root=EMPTY_ROOT)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_proofs_of_the_second_implementation_hold(path):
    vector = json.loads(path.read_text(encoding="utf-8"))
    records = {
        one["key"]: Descriptor(
            key=one["key"],
            revision=int(one["revision"]),
            scope=one["scope"],
            content_hash=sha256(canonical_bytes(one["content"])),
            fact_hash=hash_bytes(one["fact_hash"]),
            tombstone=one["tombstone"],
        )
        for one in vector["records"]
    }
    nodes = {node.path: node.body for node in build(sorted(one.pair for one in records.values()))}
    for given_proof in vector["proofs"]:
        key = given_proof["key"]
        proof = Proof(nodes=given_proof["nodes"])
        assert (key in records) == given_proof["present"]
        assert prove(nodes, key_hash(key)) == proof
        verify(proof, key=key, descriptor=records.get(key), root=bytes.fromhex(vector["root"]))
