"""What can go wrong on the developer's own machine: it should be read as it stands, without a traceback."""

from __future__ import annotations

from anabranch.model.errors import AnabranchError


class DevclusterError(AnabranchError):
    """Something of the local cluster, or of the machine that it needs, is not as it must be."""

    code = "DevclusterFailed"


class PortTakenError(DevclusterError):
    """Another program took a port between its choice and its use; other ports will do."""

    code = "PortTaken"
