"""The questions that a Baseline's publications must leave answered: read from a ConfigMap, kept with what is asked.

Level-triggered, like an import: the set is read each time and compared by its digest. Where there is none, or none that
could be asked, that is kept too: publications wait for it then, and are never made without having been asked.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.baselines.conditions import Condition
from anabranch.domain import recall as domain
from anabranch.kube.kinds import CONFIG_MAP
from anabranch.model.canonical import sha256
from anabranch.model.errors import InvalidInputError
from anabranch.store import jobs, recall

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from anabranch.kube.client import KubeClient
    from anabranch.model.crd import BaselineResource, RecallConfigMap
    from anabranch.store.database import Connection


@dataclass(frozen=True, slots=True)
class Asked:
    """What was read of a set of questions.

    Attributes:
        tasks: The set, as JSON Lines; None: there is none that could be asked.
        told: Why there is none.
    """

    tasks: bytes | None = None
    told: tuple[Condition, ...] = ()


async def read(kube: KubeClient, resource: BaselineResource) -> Asked:
    """Read the set that a Baseline names, if it names one.

    Raises:
        UnavailableError: If the API server cannot be reached.
    """
    if resource.spec.recall is None:
        return Asked()
    source = resource.spec.recall.tasks.config_map
    found = await kube.find(CONFIG_MAP, namespace=resource.namespace, name=source.name)
    if found is None:
        return _unavailable("ConfigMapMissing", f"There is no ConfigMap {resource.namespace}/{source.name}.")
    try:
        return Asked(await asyncio.to_thread(_tasks, found, source))
    except InvalidInputError as error:
        return _unavailable("TasksInvalid", str(error))


async def keep(conn: Connection, *, line: str, resource: BaselineResource, asked: Asked) -> None:
    """Keep what a Baseline asks, and have looked at again what waits for it.

    Args:
        conn: Inside a transaction.
        line: The line.
        resource: The Baseline.
        asked: As `read` gave it.
    """
    spec = resource.spec.recall
    if spec is None:
        changed = await recall.drop(conn, line=line)
    else:
        gate = recall.Gate(
            line=line,
            config_map=spec.tasks.config_map.name,
            k=spec.k,
            floor=spec.floor,
            max_regression=spec.max_regression,
            digest=None if asked.tasks is None else sha256(asked.tasks),
        )
        changed = await recall.keep(conn, gate=gate, tasks=asked.tasks)
    if changed:
        await jobs.wake_waiting(conn, line=line)


def _tasks(config_map: Mapping[str, Any], source: RecallConfigMap) -> bytes:
    """The set in a ConfigMap.

    Raises:
        InvalidInputError: If it is not there, no set, or has nothing that recall counts.
    """
    texts: dict[str, bytes] = {name: text.encode() for name, text in (config_map.get("data") or {}).items()}
    texts |= {name: base64.b64decode(text) for name, text in (config_map.get("binaryData") or {}).items()}
    key = source.key or (next(iter(texts)) if len(texts) == 1 else "")
    if key not in texts:
        missing = f"no key {source.key!r}" if source.key else f"{len(texts)} keys"
        raise InvalidInputError(
            f"The ConfigMap {source.name} has {missing}.", hint="Name the set in spec.recall.tasks.configMap.key."
        )
    if not any(task.counts for task in domain.parse(texts[key], name=f"{source.name}/{key}")):
        raise InvalidInputError(
            f"No task of {source.name}/{key} counts for recall.", hint="Give some of them `answers` or `absent`."
        )
    return texts[key]


def _unavailable(reason: str, message: str) -> Asked:
    return Asked(None, (Condition("RecallTasksUnavailable", reason, f"{message} Publications wait for it."),))
