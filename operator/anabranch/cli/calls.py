"""One call of the API by a command, as the token's owner."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from anabranch.model.errors import InvalidInputError
from anabranch.model.misfits import misfits, told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anabranch.cli.connection import Connection
    from anabranch.client import AnabranchClient

T = TypeVar("T")


def call(connection: Connection, ask: Callable[[AnabranchClient, str], Awaitable[T]]) -> T:
    """Give a client and the namespace to a function, and return what it makes of them.

    Raises:
        InvalidInputError: If what was given on the command line can be no request.
    """
    from pydantic import ValidationError  # noqa: PLC0415  (a third of a second, for those who call the API)

    async def run() -> T:
        async with connection.client() as client:
            return await ask(client, connection.namespace)

    try:
        return asyncio.run(run())
    except ValidationError as error:
        raise InvalidInputError(told(misfits(error.errors())), hint="Nothing was sent.") from None


def as_json(answer: Any) -> Any:
    """An answer of the API as JSON has it."""
    return answer.model_dump(mode="json") if hasattr(answer, "model_dump") else answer
