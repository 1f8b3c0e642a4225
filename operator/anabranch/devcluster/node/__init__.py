"""A node for the local control plane: containerd, kubelet, kube-proxy and CoreDNS, so that pods really run.

It is for what shows only in pods: the image, the chart, rolling updates, a pod's own token. It needs root and
some packages of Debian, and there is one at a time on a machine; the plain control plane needs neither. The host keeps
its network, mounts and packet filter: the node lives in namespaces of its own, joined to the host by one link, and ends
as a whole with the first process in them.
"""

from anabranch.devcluster.node.images import load_image
from anabranch.devcluster.node.machine import available
from anabranch.devcluster.node.running import down, exists, status, up

__all__ = ["available", "down", "exists", "load_image", "status", "up"]
