"""Prints what became of a batch: namespace, baseline, branch, sequence."""

import asyncio
import os
import sys
from pathlib import Path

from anabranch.client import AnabranchClient


async def main(namespace: str, _baseline: str, branch: str, sequence: str) -> None:
    """Ask."""
    token = Path(os.environ["ANABRANCH_TOKEN_FILE"])
    async with AnabranchClient(os.environ["ANABRANCH_URL"], token_file=token) as client:
        sys.stdout.write((await client.batch(namespace, branch, int(sequence))).model_dump_json())


asyncio.run(main(*sys.argv[1:]))
