"""Changes to a trie, fetched as the store fetches: the result is what a rebuild from scratch gives, node for node."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.domain.trie import (
    EMPTY_BODY,
    EMPTY_ROOT,
    LEAF_MAX,
    CorruptNodeError,
    MissingNodesError,
    build,
    key_hash,
    node_hash,
    prefixes,
    root_of,
    update,
)
from anabranch.model.canonical import sha256

DESCRIPTORS = [sha256(b"descriptor %d" % n) for n in range(4)]

# Spread keys, as real ones are, and two crowds, so that splits and collapses run over several levels at once.
KEYS = sorted(
    [key_hash(f"key/{n}") for n in range(300)]
    + [b"\xab" + sha256(b"near %d" % n)[1:] for n in range(90)]
    + [b"\xab\xcd" + sha256(b"nearer %d" % n)[2:] for n in range(70)]
)


class Table:
    """The nodes as a table holds them, with a count of the fetches that an update took."""

    def __init__(self, pairs=()):
        self.pairs = dict(pairs)
        self.bodies = {node.path: node.body for node in build(sorted(self.pairs.items()))}
        self.root = root_of(sorted(self.pairs.items()))
        self.fetches = 0

    def fetch(self, paths):
        self.fetches += 1
        return {path: self.bodies[path] for path in paths if path in self.bodies}

    def apply(self, changes):
        nodes, self.fetches = self.fetch(prefixes(changes)), 1
        while True:
            try:
                delta = update(nodes, changes, root=self.root)
                break
            except MissingNodesError as error:
                lacking = error.paths
            assert lacking <= self.bodies.keys() - nodes.keys()
            nodes |= self.fetch(lacking)
        self._check_minimal(delta)
        for path in delta.removed:
            del self.bodies[path]
        self.bodies |= {path: node.body for path, node in delta.puts.items()}
        self.root = delta.root
        for key, descriptor in changes.items():
            if descriptor is None:
                self.pairs.pop(key, None)
            else:
                self.pairs[key] = descriptor
        assert delta.count == len(self.pairs)
        return delta

    def _check_minimal(self, delta):
        assert delta.removed <= self.bodies.keys()
        assert not delta.removed & delta.puts.keys()
        assert all(self.bodies.get(path) != node.body for path, node in delta.puts.items())
        assert all(path == node.path for path, node in delta.puts.items())

    def check_rebuilt(self):
        nodes = list(build(sorted(self.pairs.items())))
        assert self.bodies == {node.path: node.body for node in nodes}
        assert self.root == nodes[-1].hash


# A slice of KEYS and what becomes of it. Numbers, so that a failing example can be read.
a_change = st.tuples(
    st.integers(0, len(KEYS)), st.integers(0, 200), st.integers(1, 7), st.sampled_from([None, *range(len(DESCRIPTORS))])
)


def changes_of(drawn):
    return {
        key: None if descriptor is None else DESCRIPTORS[descriptor]
        for start, length, stride, descriptor in drawn
        for key in KEYS[start : start + length : stride]
    }


@settings(deadline=None)
@given(st.lists(st.lists(a_change, min_size=1, max_size=3), max_size=8))
def test_any_sequence_of_changes_equals_a_rebuild(steps):
    table = Table((key, DESCRIPTORS[0]) for key in KEYS[::2])
    for drawn in steps:
        table.apply(changes_of(drawn))
        assert table.fetches <= 2
        table.check_rebuilt()


@settings(deadline=None, max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(1, 120))
def test_the_root_does_not_depend_on_the_order_of_changes(random, size):
    table = Table()
    for descriptor in (DESCRIPTORS[0], None):
        keys = random.sample(KEYS, len(KEYS))
        for start in range(0, len(keys), size):
            table.apply(dict.fromkeys(keys[start : start + size], descriptor))
        left = [] if descriptor is None else [(key, descriptor) for key in KEYS]
        assert table.bodies == {node.path: node.body for node in build(left)}


def test_the_65th_descriptor_splits_a_leaf_and_its_removal_collapses_it():
    keys = [key_hash(f"key/{n}") for n in range(LEAF_MAX + 1)]
    table = Table((key, DESCRIPTORS[0]) for key in keys[:LEAF_MAX])
    leaf = dict(table.bodies)
    assert list(leaf) == [""]
    split = table.apply({keys[-1]: DESCRIPTORS[0]})
    assert len(table.bodies) == len(split.puts) > 2
    collapse = table.apply({keys[-1]: None})
    assert set(collapse.puts) == {""}
    assert collapse.removed == split.puts.keys() - {""}
    assert table.bodies == leaf


def test_a_collapse_over_several_levels_takes_one_more_fetch_that_names_only_its_leaves():
    crowd = [b"\xab\xcd" + bytes([n]) * 30 for n in range(LEAF_MAX + 1)]
    table = Table((key, DESCRIPTORS[0]) for key in crowd)
    changes = {crowd[0]: None}
    with pytest.raises(MissingNodesError) as caught:
        update(table.fetch(prefixes(changes)), changes, root=table.root)
    assert caught.value.paths == {"abcd1", "abcd2", "abcd3", "abcd4"}
    delta = table.apply(changes)
    assert table.fetches == 2
    assert set(delta.puts) == {""}
    table.check_rebuilt()


def test_keys_below_the_prefetched_depth_are_fetched_level_by_level():
    table = Table((bytes(31) + bytes([n]), DESCRIPTORS[0]) for n in range(LEAF_MAX + 2))
    table.apply({bytes(32): DESCRIPTORS[1]})
    assert table.fetches > 2
    table.check_rebuilt()


def test_changes_that_change_nothing_put_nothing():
    table = Table((key, DESCRIPTORS[0]) for key in KEYS[:200])
    delta = table.apply({KEYS[0]: DESCRIPTORS[0], KEYS[300]: None})
    assert (dict(delta.puts), delta.removed, delta.root) == ({}, frozenset(), table.root)
    assert table.apply({}).count == 200


def test_one_change_puts_only_the_nodes_of_its_path():
    table = Table((key, DESCRIPTORS[0]) for key in KEYS)
    delta = table.apply({KEYS[0]: DESCRIPTORS[1]})
    assert delta.puts.keys() == prefixes([KEYS[0]]) & table.bodies.keys()


def test_a_first_publication_starts_from_the_empty_root():
    delta = update({"": EMPTY_BODY}, {KEYS[0]: DESCRIPTORS[0]}, root=EMPTY_ROOT)
    assert (delta.root, delta.count) == (root_of([(KEYS[0], DESCRIPTORS[0])]), 1)


def test_prefixes_are_the_paths_from_the_root_to_the_depth():
    keys = [b"\xa1\xb2" + bytes(30), b"\xa7" + bytes(31)]
    assert prefixes(keys, depth=3) == {"", "a", "a1", "a1b", "a7", "a70"}


def test_an_unfetched_root_is_named():
    with pytest.raises(MissingNodesError) as caught:
        update({}, {KEYS[0]: None}, root=EMPTY_ROOT)
    assert caught.value.paths == {""}


def test_nodes_of_another_generation_are_refused():
    table = Table((key, DESCRIPTORS[0]) for key in KEYS)
    changes = {KEYS[0]: DESCRIPTORS[2]}
    old = table.fetch(prefixes(changes))
    table.apply({KEYS[0]: DESCRIPTORS[1]})
    new = table.fetch(prefixes(changes))
    with pytest.raises(CorruptNodeError, match="path ''"):
        update(old, changes, root=table.root)
    for path in old:
        with pytest.raises(CorruptNodeError, match="has not the hash"):
            update(new | {path: old[path]}, changes, root=table.root)


def test_a_child_whose_count_is_not_its_parents_is_refused():
    nodes = {node.path: node.body for node in build((key, DESCRIPTORS[0]) for key in KEYS[:100])}
    root = nodes[""]
    count_at = 3  # after the kind and the bitmap
    forged = root[:count_at] + (int.from_bytes(root[count_at : count_at + 4]) + 1).to_bytes(4) + root[count_at + 4 :]
    with pytest.raises(CorruptNodeError, match="by its parent"):
        update(nodes | {"": forged}, {KEYS[0]: None}, root=node_hash(forged))
