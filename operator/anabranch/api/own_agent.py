"""Who calls as an agent, and whether its memory and events are theirs."""

from typing import Annotated

from fastapi import Path

from anabranch.api.access import NAME, Asking, Credentials, NamespacePath
from anabranch.api.parts import Parts, WithParts
from anabranch.api.visibility import OnAgent
from anabranch.identity import Caller, grants
from anabranch.identity.permissions import absent
from anabranch.memory import ownership
from anabranch.model.memory import AgentKey

AgentPath = Annotated[str, Path(alias="agent", max_length=253, pattern=NAME, description="id of the agent")]
InstancePath = Annotated[
    str, Path(alias="instance", max_length=63, pattern=NAME, description="which of the agent's instances")
]


class OfOwnAgent(Asking):
    """For an agent's memory and events, which answer that agent alone, whatever grants others hold.

    An agent's id is its ServiceAccount's name, or one that it holds `use` on; and it is the agent's for good once it
    has worked under it. Whoever else asks is told the same of an id that is taken, one that is free, and one that is
    not theirs to take.
    """

    async def __call__(
        self,
        parts: WithParts,
        credentials: Credentials,
        namespace: NamespacePath,
        agent: AgentPath,
        instance: InstancePath,
    ) -> OnAgent:
        """Authenticate, check the grants, and that the id is the caller's."""
        caller = await self.authenticate(parts, credentials)
        who = AgentKey(namespace=namespace, agent_id=agent, instance=instance)
        service_account = await self.check(caller, parts, who)
        store = parts.stores.default
        if not await ownership.take(store.db, who, service_account=service_account):
            raise absent("agent", namespace=namespace, name=agent)
        return OnAgent(caller=caller, store=store, who=who)

    async def check(self, caller: Caller, parts: Parts, who: AgentKey, *, anew: bool = False) -> str:
        """The name of the caller's ServiceAccount, which may work as an agent.

        Args:
            caller: Who asks.
            parts: To ask by.
            who: As whom.
            anew: Take no answer that is remembered: for what outlives the answer that began it.

        Raises:
            NotFoundError: If the id is not theirs, or not theirs any more.
            ForbiddenError: If it is, and they may have no memory under it.
            UnavailableError: If the API server cannot be asked.
        """
        namespace, name = caller.service_account or ("", "")
        is_theirs = namespace == who.namespace and (
            name == who.agent_id
            or await parts.grants.allowed(
                caller, grants.USE_AGENT_ID, namespace=namespace, name=who.agent_id, anew=anew
            )
        )
        if not is_theirs:
            raise absent("agent", namespace=who.namespace, name=who.agent_id)
        await parts.grants.require(caller, self.rows[0], namespace=namespace, name=who.agent_id, anew=anew)
        if anew and not await ownership.holds(parts.stores.default.db, who, service_account=name):
            raise absent("agent", namespace=who.namespace, name=who.agent_id)
        return name
