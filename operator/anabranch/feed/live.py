"""Streams of feeds: who follows live in this process, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from anabranch.feed.channel import Channel
from anabranch.feed.ends import FollowersError, ending

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from anabranch.domain.cursor import Sealer
    from anabranch.feed.audience import Readable
    from anabranch.feed.cursor import Position
    from anabranch.feed.follower import Follower
    from anabranch.feed.reel import Wire
    from anabranch.feed.waking import Waking
    from anabranch.store.database import Database

FOLLOWERS: Final = 4_000
"""Most followers of a process, at 64 KiB each at most: more of them are for more processes."""

FOLLOWERS_OF_ONE: Final = 3_000
"""Most of them by one name, so that a fleet, or an agent gone astray, leaves places to others."""


class Live:
    """All followers of a process.

    Args:
        db: The store.
        sealer: Makes cursors.
        waking: Says when to look.
    """

    def __init__(self, db: Database, sealer: Sealer, waking: Waking) -> None:
        self._db = db
        self._sealer = sealer
        self._waking = waking
        self._channels: dict[str, Channel] = {}

    def __len__(self) -> int:
        """How many follow."""
        return sum(map(len, self._channels.values()))

    def follow(  # noqa: PLR0913  (all but the line by keyword)
        self,
        line: str,
        *,
        start: Position | None,
        key: Hashable,
        who: str,
        readable: Readable,
        identify: Callable[[], Awaitable[None]],
        wire: Callable[[], Wire],
    ) -> Follower:
        """A new follower of a line; it has read nothing yet, and must be closed.

        Args:
            line: The line.
            start: Where it is; None: at the beginning of what is kept.
            key: The same for all who may see the same of the line.
            who: The name of whose place it takes, whatever else the key tells apart.
            readable: Says which of some scopes they may read, of this very moment; raises when they may not follow.
            identify: Looks at the follower's token again; raises when it is not good any more.
            wire: Makes what makes bytes of the line's events.

        Raises:
            FollowersError: If there are as many as may be, in all or by this name.
            EndingError: If the process is about to end.
        """
        if self._waking.ending:
            raise ending()
        if len(self) >= FOLLOWERS:
            raise FollowersError(f"{FOLLOWERS} follow here already.", hint="Try again in a moment, or poll.")
        if sum(channel.count(who) for channel in self._channels.values()) >= FOLLOWERS_OF_ONE:
            raise FollowersError(
                f"{FOLLOWERS_OF_ONE} streams follow here by your name already.", hint="Close some, or poll."
            )
        channel = self._channels.get(line)
        if channel is None:
            channel = self._channels[line] = Channel(
                line, db=self._db, sealer=self._sealer, waking=self._waking, wire=wire(), closed=self._closed
            )
        return channel.follower(key, readable, who=who, start=start, identify=identify)

    def _closed(self, channel: Channel) -> None:
        if self._channels.get(channel.line) is channel:
            del self._channels[channel.line]
