"""The addresses of a cluster with a node. They are fixed, since there is one at a time on a machine.

::

    host 10.98.0.1 (anabranch0) ── 10.98.0.2 (eth0) node ── pods 10.98.1.0/24
      etcd, API, controllers, scheduler      containerd, kubelet, kube-proxy, CoreDNS
                                             Services 10.97.0.0/16, by kube-proxy's rules
"""

from __future__ import annotations

from typing import Final

from anabranch.devcluster import pki

HOST: Final = pki.HOST_ADDRESS
"""The host's end of the link, where pods reach the API and whatever else listens there."""

NODE: Final = "10.98.0.2"
"""The node's end: its NodePorts and its name server."""

LINK: Final = "10.98.0.0/30"
PODS: Final = "10.98.1.0/24"
SERVICES: Final = "10.97.0.0/16"
"""As in the API server's options."""

DEVICE: Final = "anabranch0"
"""The host's end of the link."""

NAME: Final = "anabranch-node"
"""The node, as kubectl shows it."""
