"""How the stores of an installation are opened when a process begins."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from anabranch.api.settings import Settings, StoreSettings
from anabranch.api.stores import Store, Stores
from anabranch.domain.cursor import Sealer
from anabranch.feed.live import Live
from anabranch.feed.poll import Feed
from anabranch.feed.waking import Waking
from anabranch.model.stores import DEFAULT_STORE
from anabranch.search.asking import Searcher
from anabranch.store import migrate
from anabranch.store.database import Database
from anabranch.store.reader import Reader
from anabranch.store.receiver import Receiver
from anabranch.store.severable import Severable


@contextlib.asynccontextmanager
async def opened(
    settings: Settings, *, sealer: Sealer, searching: Callable[[Database], Searcher]
) -> AsyncIterator[Stores]:
    """The stores, for the length of a block.

    One that stands alone must be there when the process begins. Of several, those that are not are waited for while the
    others serve.

    Args:
        settings: Of the process.
        sealer: Makes cursors.
        searching: Makes what searches a database.

    Raises:
        UnavailableError: If the only one does not answer, or none of them does.
        SchemaMismatchError: If the only one has another schema, or each of them.
    """
    wanted = {
        DEFAULT_STORE: StoreSettings(
            dsn=settings.dsn, listen_dsn=settings.listen_dsn, standbys_dsn=settings.standbys_dsn
        ),
        **settings.stores,
    }
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for name, one in wanted.items():
            db = await Severable.open(
                one.dsn,
                application_name="anabranch-api",
                min_size=1 if len(wanted) == 1 else 0,
                standbys_dsn=one.standbys_dsn,
            )
            stack.push_async_callback(db.close)
            if len(wanted) == 1:
                async with db.connection() as conn:
                    await migrate.check(conn)
            waking = await stack.enter_async_context(Waking(db, dsn=one.listen_dsn))
            made.append(
                Store(
                    name=name,
                    db=db,
                    receiver=Receiver(db),
                    reader=Reader(db),
                    searcher=searching(db),
                    waking=waking,
                    feed=Feed(db, sealer, waking),
                    live=Live(db, sealer, waking),
                )
            )
        stores = Stores(made)
        if len(stores) > 1:
            faults = await stores.met(settings.stores_wait)
            if all(faults) and faults[0] is not None:
                raise faults[0]
            watching = asyncio.create_task(stores.watch(), name="stores")
            stack.push_async_callback(_end, watching)
        yield stores


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
