#!/bin/sh -e
# Runs once in the node's new namespaces: DIR PROGRAMS ADDRESS SERVICES
#
# What containerd, kubelet and CNI write at fixed places goes to memory or to DIR, and never reaches the host's own:
# this mount namespace ends with the node.
dir=$1 programs=$2 address=$3 services=$4

exec 3<"$dir" 4<"$programs"  # either may be below what is covered now
for covered in /run /var/log /var/lib; do
    mount -t tmpfs -o mode=755 anabranch "$covered"
done
mkdir -p "$dir" "$programs"
mount --no-canonicalize --bind /proc/self/fd/3 "$dir"
mount --no-canonicalize --bind /proc/self/fd/4 "$programs"

mkdir -p /run/netns /var/lib/kubelet "$dir/data/kubelet" /var/log/pods "$dir/data/pods"
mount --bind "$dir/data/kubelet" /var/lib/kubelet
mount --bind "$dir/data/pods" /var/log/pods

# No default route: nothing but the cluster and the host's end of the link can be reached. The route for Services keeps
# a packet inside that kube-proxy has no rule for.
echo 1 >/proc/sys/net/ipv4/ip_forward
ip link set lo up
ip address add "$address/30" dev eth0
ip link set eth0 up
ip route add "$services" dev eth0
