"""Prints what a reader has of a Baseline: the hash of every manifest, and of the feed each event's key and kind."""

import asyncio
import json
import os
import sys
from pathlib import Path

from anabranch.client import AnabranchClient


async def main(namespace: str, baseline: str) -> None:
    """Read everything."""
    token = Path(os.environ["ANABRANCH_TOKEN_FILE"])
    async with AnabranchClient(os.environ["ANABRANCH_URL"], token_file=token) as client:
        manifests = {each.generation: each.manifest_hash async for each in client.manifests(namespace, baseline)}
        records = {each.key: each.content async for each in client.records(namespace, baseline)}
        events, cursor = [], None
        while (page := await client.events(namespace, baseline, after=cursor, limit=1000)).events:
            events += [(event.kind, event.key) for event in page.events]
            cursor = page.cursor
    sys.stdout.write(json.dumps({"manifests": manifests, "records": records, "events": events}))


asyncio.run(main(*sys.argv[1:]))
