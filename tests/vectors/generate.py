"""Writes the test vectors of the manifest hash; with --check, fails if the files differ from what it would write.

It is a second implementation, from docs/spec/manifest-hash.md alone, in the standard library, as plain as can be: it
imports nothing of Anabranch, so the vectors do not merely repeat what the product computes. Start here to port it.
"""

import argparse
import hashlib
import json
import struct
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "manifest_hash"


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    # RFC 8785 for what occurs here: ASCII member names, strings, booleans, null, small integers.
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def descriptor_hash(record):
    descriptor = {
        "key": record["key"],
        "revision": record["revision"],
        "scope": record["scope"],
        "content_hash": "sha256:" + sha256(canonical(record["content"])).hex(),
        "fact_hash": record["fact_hash"],
        "tombstone": record["tombstone"],
    }
    return sha256(b"anabranch.trie.descriptor.v1\0" + canonical(descriptor))


def subtree(pairs, depth, path_nodes, key):
    """Hash of the node over these pairs; appends the bodies on the path of `key` to `path_nodes`, root last."""
    on_path = key is not None
    if not pairs:
        body, tag = b"", b"anabranch.trie.empty.v1\0"
    elif len(pairs) <= 64:
        body, tag = b"\1" + b"".join(k + d for k, d in sorted(pairs)), b"anabranch.trie.leaf.v1\0"
    else:
        bitmap, children = 0, b""
        for nibble in range(16):
            part = [pair for pair in pairs if int(pair[0].hex()[depth], 16) == nibble]
            if part:
                below = key if on_path and int(key.hex()[depth], 16) == nibble else None
                bitmap |= 1 << nibble
                children += struct.pack(">I", len(part)) + subtree(part, depth + 1, path_nodes, below)
        body, tag = b"\2" + struct.pack(">H", bitmap) + children, b"anabranch.trie.inner.v1\0"
    if on_path:
        path_nodes.append(body.hex())
    return sha256(tag + body)


def record(number, key, *, scope="shared", content=None, tombstone=False):
    return {
        "key": key,
        "revision": str(number),
        "scope": scope,
        "content": content,
        "fact_hash": "sha256:" + sha256(f"fact {number}".encode()).hex(),
        "tombstone": tombstone,
    }


def numbered(count):
    return [record(n, f"runbook/{n:04}", content={"text": f"Step {n}", "n": n}) for n in range(1, count + 1)]


INPUTS = {
    "empty": ("A manifest without records.", [], ["setup/guide"]),
    "one-record": ("A leaf of one pair.", [record(1, "setup/guide", content="Install uv.")], ["setup/guide", "absent"]),
    "64-records": ("The largest leaf.", numbered(64), ["runbook/0007"]),
    "65-records": ("The smallest inner node.", numbered(65), ["runbook/0007", "absent"]),
    "1000-records": (
        "Children of the root that are leaves, and others that are inner nodes.",
        numbered(1000),
        ["runbook/0500", "absent"],
    ),
    "tombstone": (
        "A deleted key that is not purged yet: its content is null. A value of null that is not deleted differs.",
        [record(1, "kept", content=None), record(2**63 - 1, "deleted", tombstone=True)],
        ["deleted"],
    ),
    "unicode-keys": (
        "Keys are hashed as UTF-8 and quoted as RFC 8785 says: nothing beyond ASCII is escaped.",
        [
            record(9007199254740993, "straße/größe", scope="team/büro", content={"€": "ö"}),
            record(2, "日本語", content=["雪", 1]),
            record(3, "emoji/🌊", content=True),
            record(4, 'quoted "and" back\\slashed', content=""),
            record(5, "line\u2028separator", content=False),
        ],
        ["日本語", "emoji/🌊", "emoji/🌋"],
    ),
}


def case(about, records, asked):
    for one in records:
        one["descriptor_hash"] = descriptor_hash(one).hex()
    pairs = [(sha256(one["key"].encode()), bytes.fromhex(one["descriptor_hash"])) for one in records]
    present = {one["key"] for one in records}
    proofs = []
    for key in asked:
        nodes = []
        subtree(pairs, 0, nodes, sha256(key.encode()))
        proofs.append({"key": key, "present": key in present, "nodes": nodes[::-1]})
    return {"about": about, "root": subtree(pairs, 0, [], None).hex(), "records": records, "proofs": proofs}


def render(vector):
    """JSON with a record or a proof a line, so that a difference can be read."""
    lines = [f'"about": {json.dumps(vector["about"])}', f'"root": "{vector["root"]}"']
    for name in ("records", "proofs"):
        items = ",\n  ".join(json.dumps(item, ensure_ascii=False) for item in vector[name])
        lines.append(f'"{name}": [\n  {items}\n]' if items else f'"{name}": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def files():
    return {FOLDER / f"{name}.json": render(case(*parts)) for name, parts in INPUTS.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check = parser.parse_args().check
    for path, text in files().items():
        if not check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} differs: run {Path(__file__).name}")


if __name__ == "__main__":
    main()
