"""The node runs pods as a cluster of one's own does: with Services, names, tokens, and a strict standard."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from anabranch.devcluster import node
from anabranch.devcluster.errors import DevclusterError
from anabranch.devcluster.node import lock

PYTHON = "/opt/anabranch/bin/python"

SERVER = """
import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""

# kube-proxy writes its rules about once a second: a Service may refuse for as long after its pods are ready.
CLIENT = """
import json, os, socket, ssl, time, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
def get(url, headers={}, context=None):
    for attempt in range(40):
        try:
            request = urllib.request.Request(url, headers=headers)
            return urllib.request.urlopen(request, timeout=5, context=context).read().decode()
        except OSError:
            if attempt == 39: raise
            time.sleep(0.25)
def refused(action):
    try: action()
    except OSError as error: return str(error)
token = {"Authorization": "Bearer " + open(account + "token").read()}
context = ssl.create_default_context(cafile=account + "ca.crt")
print(json.dumps({
    "short": get("http://web/"),
    "long": get(f"http://web.{os.environ['NAMESPACE']}.svc.cluster.local/"),
    "version": json.loads(get("https://kubernetes.default.svc/version", token, context))["gitVersion"],
    "name outside": refused(lambda: socket.getaddrinfo("example.com", 80)),
    "address outside": refused(lambda: socket.create_connection(("203.0.113.1", 80), timeout=3)),
}))
"""


@pytest.fixture
def web(pods):
    pods.start("web", PYTHON, "-c", SERVER, port=8000)
    pods.wait("web", "condition=Ready")
    return pods


def test_a_pod_reaches_a_service_by_its_name_and_the_api_by_its_token_and_nothing_outside(web):
    said = json.loads(web.run("client", PYTHON, "-c", CLIENT, NAMESPACE=web.namespace))
    assert said["short"] == "web"
    assert said["long"] == "web"
    assert said["version"].startswith("v1.35.")
    assert "not known" in said["name outside"]
    assert "unreachable" in said["address outside"]


def test_the_host_reaches_a_service_and_logs_and_exec_work(web):
    address = web.cluster.get("service", "web", f"--namespace={web.namespace}")["spec"]["clusterIP"]
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for attempt in range(40):
        try:
            assert opener.open(f"http://{address}/", timeout=5).read() == b"web"
            break
        except OSError:
            assert attempt < 39
    run = ("exec", "web", f"--namespace={web.namespace}", "--", PYTHON, "-c", "import os; print(os.getuid())")
    assert web.cluster.kubectl(*run).strip() == "65532"


def test_a_pod_that_may_become_root_is_refused(pods):
    with pytest.raises(DevclusterError, match="violates PodSecurity"):
        pods.cluster.kubectl("run", "bad", "--image=x", f"--namespace={pods.namespace}")


def test_a_second_node_is_refused_and_told_of_the_first(node_cluster, tmp_path):
    with pytest.raises(DevclusterError) as refusal:
        node.up(tmp_path / "second")
    assert str(node_cluster.kubeconfig.parent) in str(refusal.value)
    assert any(str(holder.pid) in str(refusal.value) for holder in lock.holders())
    node.down(tmp_path / "second")
    assert not lock.is_free()


def test_what_the_node_mounts_is_not_mounted_on_the_host(web):
    mounts = Path("/proc/mounts").read_text().splitlines()
    places = (str(web.cluster.kubeconfig.parent), "/var/lib/kubelet", "/run/netns")
    assert not [line for line in mounts if any(place in line for place in places)]
    assert not Path("/var/lib/cni").exists()
