"""First part: knowledge is imported, and two agents fork it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from anabranch import __version__
from anabranch.archive.directory import write_archive
from anabranch.archive.settings import ImportSettings
from anabranch.archive.walk import scan
from anabranch.cli.story.cast import BASELINE, BUILD_AGENT, DOCS_AGENT, PROJECT_DOCS, PUBLISHER
from anabranch.cli.story.findings import FAILURE
from anabranch.domain.trie import Descriptor, root_of
from anabranch.model.canonical import canonical_bytes, hash_bytes, hash_text, sha256
from anabranch.model.errors import NotFoundError

if TYPE_CHECKING:
    from anabranch.cli.story.stage import Stage
    from anabranch.client import AnabranchClient

ROOT: Final = Path(__file__).resolve().parents[4]
"""Of the checkout that this package runs from."""

EXAMPLES: Final = ROOT / "examples" / "platform-team"
PAGES: Final = ROOT / "docs" / "spec"

BUILD_BRANCH: Final = "why-exit-137"
DOCS_BRANCH: Final = "refresh-setup-guide"


def check_examples() -> None:
    """Check that the demo's input is at hand.

    Raises:
        NotFoundError: If this package runs from elsewhere than a checkout.
    """
    if not EXAMPLES.is_dir():
        raise NotFoundError(f"{EXAMPLES} is not there.", hint="Run the demo from a checkout of the project: make demo.")


async def import_knowledge(stage: Stage) -> str:
    """Apply first, upload then: the Baseline waits for the archive that it names. Gives the hash of what it reads."""
    cast = stage.cast
    stage.step("A platform team imports what it knows")
    archive = stage.stack.folder / "platform-team.anabranch"
    with archive.open("w+b") as file:
        made = write_archive(scan(EXAMPLES, ImportSettings.load(EXAMPLES)), file, created_by=f"anabranch {__version__}")
    digest = made.summary.digest
    stage.fact(f"anabranch import examples/platform-team: {made.summary.records} records, {digest[:19]}…")
    stage.stack.cluster.apply([cast.baseline(digest)])
    message = await stage.condition("baseline", BASELINE, "Reconciling", namespace=cast.memory, reason="ArchiveMissing")
    stage.fact(f"the Baseline is applied and waits ({message.partition(':')[0]})")
    async with stage.client(cast.memory, PUBLISHER) as client:
        await client.upload_archive(cast.memory, BASELINE, archive, digest)
    stage.wait(f"baseline/{BASELINE}", "Ready", namespace=cast.memory)

    pages = {page.name: page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md"))}
    stage.stack.cluster.apply(cast.project_docs(pages))
    stage.wait(f"baseline/{PROJECT_DOCS}", "Ready", namespace=cast.memory)
    stage.fact(f"this project's own pages too, from a ConfigMap of {len(pages)} files")
    stage.show()
    async with stage.client(cast.agents, BUILD_AGENT) as client:
        return await fingerprint(client, cast.memory, generation=1)


async def fork(stage: Stage) -> None:
    """Two agents fork generation 1."""
    cast = stage.cast
    stage.step("Two agents fork generation 1, each a private branch")
    branches = [
        cast.branch(
            BUILD_BRANCH, agent=BUILD_AGENT, task="Find out why the payments release build dies with exit 137."
        ),
        cast.branch(DOCS_BRANCH, agent=DOCS_AGENT, task="Bring the setup guide up to date."),
    ]
    stage.stack.cluster.apply(branches)
    for name in (BUILD_BRANCH, DOCS_BRANCH):
        await asyncio.to_thread(stage.wait, f"branch/{name}", "Ready", namespace=cast.agents)
    async with stage.client(cast.agents, BUILD_AGENT) as client:
        known = (await client.record(cast.memory, BASELINE, FAILURE)).content
        text = json.dumps(known).lower()
        stage.expect("unknown" in text, "the build agent reads in its base that the cause of exit 137 is unknown")


async def fingerprint(client: AnabranchClient, namespace: str, *, generation: int) -> str:
    """The hash of a generation as read, byte for byte; checked against the manifest's own root on the way.

    Raises:
        NotFoundError: If the records that came back do not add up to the manifest's root.
    """
    manifest = await client.manifest(namespace, BASELINE, generation)
    descriptors, read = [], []
    async for fact in client.records(namespace, BASELINE, generation, tombstones=True):
        read.append(canonical_bytes(fact.model_dump(mode="json")))
        descriptors.append(
            Descriptor(
                key=fact.key,
                revision=int(fact.revision),
                scope=fact.scope,
                content_hash=hash_bytes(fact.content_hash),
                fact_hash=hash_bytes(fact.fact_hash),
                tombstone=fact.tombstone,
            )
        )
    root = hash_text(root_of(sorted(descriptor.pair for descriptor in descriptors)))
    if root != manifest.manifest_hash:
        raise NotFoundError(f"Generation {generation} does not add up to its root.", hint="That is a bug: tell us.")
    return hash_text(sha256(b"\n".join(read)))
