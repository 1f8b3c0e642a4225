"""The API server's two judgements: who a token belongs to, and whether that identity may do something."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.kube.kinds import ACCESS_REVIEW, TOKEN_REVIEW
from anabranch.model.crd import GROUP
from anabranch.telemetry.common import reviewed

if TYPE_CHECKING:
    from anabranch.kube.client import KubeClient


@dataclass(frozen=True)
class User:
    """An identity as the API server knows it; hashable, since answers are cached by it."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Action:
    """What somebody wants to do: a verb on a resource of this system's API group.

    Attributes:
        verb: Such as ``get``.
        resource: Plural name, with its subresource: ``baselines/records``.
        namespace: Where.
        name: Of the one object, or of the scope or agent; empty: of any.
    """

    verb: str
    resource: str
    namespace: str
    name: str = ""


async def review_token(client: KubeClient, token: str, *, audience: str) -> User | None:
    """Whom a token belongs to; None if it is expired, forged, of a deleted account, or not meant for this audience."""
    with reviewed("token"):
        answer = await client.create(TOKEN_REVIEW, {"spec": {"token": token, "audiences": [audience]}})
    status = answer.get("status", {})
    # An authenticator that knows no audiences ignores the wish: what it confirms is what counts.
    if not status.get("authenticated") or audience not in status.get("audiences", ()):
        return None
    user = status.get("user", {})
    extra = user.get("extra") or {}
    return User(
        username=user.get("username", ""),
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple(sorted((name, tuple(values)) for name, values in extra.items())),
    )


async def review_access(client: KubeClient, user: User, action: Action) -> bool:
    """Whether the cluster's authorizers let this identity do this."""
    resource, _, subresource = action.resource.partition("/")
    attributes: dict[str, Any] = {
        "group": GROUP,
        "resource": resource,
        "subresource": subresource,
        "verb": action.verb,
        "namespace": action.namespace,
        "name": action.name,
    }
    spec = {
        "user": user.username,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {name: list(values) for name, values in user.extra},
        "resourceAttributes": attributes,
    }
    with reviewed("access"):
        answer = await client.create(ACCESS_REVIEW, {"spec": spec})
    status = answer.get("status", {})
    return bool(status.get("allowed")) and not status.get("denied")
