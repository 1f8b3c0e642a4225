"""Who calls, and what they may do: the API server's judgement on both, remembered for seconds."""

from anabranch.identity.authentication import Identity
from anabranch.identity.caller import Caller
from anabranch.identity.grants import Grant
from anabranch.identity.permissions import Grants

__all__ = ["Caller", "Grant", "Grants", "Identity"]
