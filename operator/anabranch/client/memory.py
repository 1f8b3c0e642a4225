"""The calls of an agent about its own memory, section by section, and of a chat platform about its exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.client.transport import Transport, parse, path
from anabranch.model.canonical import canonical_bytes
from anabranch.model.errors import InvalidInputError
from anabranch.model.memory import (
    SYSTEM_EXCHANGES,
    ExchangeReceipt,
    MemoryEnvelope,
    MemorySection,
    MemorySections,
    MemorySynced,
    PutSection,
    SectionHistory,
    SystemExchanges,
)

if TYPE_CHECKING:
    from anabranch.model.memory import ExchangePost, MemorySync, MemoryVisibility

_JSON = {"Content-Type": "application/json"}


class MemoryCalls(Transport):
    """Calls about an agent's memory. Each takes its namespace and id; `instance` is ``default`` unless given."""

    async def memory(self, namespace: str, agent: str, *, instance: str = "default") -> MemoryEnvelope:
        """Everything that an instance remembers. Nothing is marked as seen."""
        return await self.get(MemoryEnvelope, _memory(namespace, agent, instance))

    async def memory_section(
        self, namespace: str, agent: str, section: str, item: str | None = None, *, instance: str = "default"
    ) -> MemorySection:
        """A section that the agent writes, or an item of `daily` or `relationships`.

        Raises:
            InvalidInputError: If it is `system_exchanges`, which the platform writes.
            NotFoundError: If there is nothing.
        """
        _check_written(section)
        return await self.get(MemorySection, _memory(namespace, agent, instance, section, item))

    async def memory_items(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        agent: str,
        section: str,
        item: str | None = None,
        *,
        instance: str = "default",
        siblings: bool = False,
    ) -> MemorySections:
        """The items of `daily` or `relationships`; or a section as the agent's other instances let this one see it.

        Args:
            namespace: Of the agent.
            agent: Its id.
            section: Which.
            item: Of the other instances', only those of this name.
            instance: Who asks.
            siblings: Those of the other instances, instead of its own.
        """
        _check_written(section)
        query = {"siblings": "true"} if siblings else None
        return await self.get(MemorySections, _memory(namespace, agent, instance, section, item), query=query)

    async def memory_history(
        self, namespace: str, agent: str, section: str, item: str | None = None, *, instance: str = "default"
    ) -> SectionHistory:
        """What a section, or an item of it, said before: the last five times that it was overwritten."""
        place = _memory(namespace, agent, instance, section, item)
        return await self.get(SectionHistory, place, query={"history": "true"})

    async def system_exchanges(self, namespace: str, agent: str, *, instance: str = "default") -> SystemExchanges:
        """What an instance was told of its agent's exchanges elsewhere, newest first; it marks them as seen."""
        return await self.get(SystemExchanges, _memory(namespace, agent, instance, "system_exchanges"))

    async def put_memory(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        agent: str,
        section: str,
        content: Any,
        item: str | None = None,
        *,
        instance: str = "default",
        visibility: MemoryVisibility | None = None,
        source: str = "",
        if_match: int | str | None = None,
        if_none_match: bool = False,
    ) -> MemorySection:
        """Write a section, or an item of one.

        Args:
            namespace: Of the agent.
            agent: Its id.
            section: `long_term`, `dedup_state`, `shared`, `daily` or `relationships`.
            content: Any JSON value.
            item: Of `daily` the date, of `relationships` the other instance.
            instance: Whose memory.
            visibility: ``instances`` lets the agent's other instances see it; None: ``private``.
            source: Who writes: a runtime, a session, a tool.
            if_match: Only over this revision.
            if_none_match: Only where there is none.

        Raises:
            ForbiddenError: With code ``SectionNotWritable``: the platform writes that section.
            PreconditionFailedError: If it is at another revision.
        """
        write = PutSection(content=content, visibility=visibility, source=source)
        conditions = {"If-None-Match": "*"} if if_none_match else {}
        if if_match is not None:
            conditions["If-Match"] = f'"{if_match}"'
        response = await self.send(
            "PUT",
            _memory(namespace, agent, instance, section, item),
            body=canonical_bytes(write.model_dump(mode="json")),
            headers={**_JSON, **conditions},
            repeatable=not conditions,  # the second attempt would fail on what the first one wrote
        )
        return parse(MemorySection, response)

    async def delete_memory(  # noqa: PLR0913  (all but the place by keyword)
        self,
        namespace: str,
        agent: str,
        section: str,
        item: str | None = None,
        *,
        instance: str = "default",
        if_match: int | str | None = None,
    ) -> None:
        """Delete a section, or an item of one; with ``if_match`` only that revision."""
        await self.send(
            "DELETE",
            _memory(namespace, agent, instance, section, item),
            headers={} if if_match is None else {"If-Match": f'"{if_match}"'},
            repeatable=False,
        )

    async def sync_memory(
        self, namespace: str, agent: str, sync: MemorySync, *, instance: str = "default"
    ) -> MemorySynced:
        """Write many sections at once; the same again, with nothing written in between, is known and writes nothing."""
        body = canonical_bytes(sync.model_dump(mode="json"))
        response = await self.send("POST", _memory(namespace, agent, instance, "sync"), body=body, headers=_JSON)
        return parse(MemorySynced, response)

    async def post_exchange(self, namespace: str, exchange: ExchangePost) -> ExchangeReceipt:
        """Tell agents of an exchange that they had on a chat platform; the same again is the same receipt.

        Raises:
            ForbiddenError: If the grant `create` on `exchanges` is missing.
            ConflictError: If another exchange was posted under that id.
        """
        body = canonical_bytes(exchange.model_dump(mode="json", exclude_none=True))
        response = await self.send("POST", path(namespace, "exchanges"), body=body, headers=_JSON)
        return parse(ExchangeReceipt, response)


def _check_written(section: str) -> None:
    """What reads sections that an agent writes must not ask for the exchanges: they would be marked as seen by it.

    Raises:
        InvalidInputError: If it does.
    """
    if section == SYSTEM_EXCHANGES:
        raise InvalidInputError(
            f"{SYSTEM_EXCHANGES} is no section that the agent writes.",
            hint="Read it by system_exchanges(), which marks its entries as seen, or by memory(), which does not.",
        )


def _memory(namespace: str, agent: str, instance: str, section: str | None = None, item: str | None = None) -> str:
    parts = [part for part in (section, item) if part is not None]
    return path(namespace, "agents", agent, instance, "memory", *parts)
