"""All faults, and how often each of them is drawn beside the others."""

from __future__ import annotations

from typing import Final

from tests.chaos import fault_failover, fault_network, fault_points, fault_processes, fault_servers, service
from tests.chaos.fault import Fault
from tests.chaos.stage import APIS, OPERATORS

FAULTS: Final[tuple[Fault, ...]] = (
    *(Fault(f"request {kind}", 6.0, fault_network.request(kind)) for kind in service.KINDS if kind != "unheard"),
    Fault("request unheard", 1.5, fault_network.request("unheard")),
    Fault("connection cut", 8.0, fault_network.cut_one),
    Fault("connection cut soon", 10.0, fault_network.cut_soon),
    Fault("connections cut", 2.0, fault_network.cut_all),
    Fault("wire silent", 1.5, fault_network.silence),
    Fault("wire refuses", 1.5, fault_network.refuse),
    Fault("wire slow", 2.0, fault_network.slow),
    Fault("session terminated", 6.0, fault_servers.terminate_session),
    Fault("leases expired", 5.0, fault_servers.expire_leases),
    Fault("everything due", 3.0, fault_servers.make_due),
    Fault("worker at a point", 5.0, fault_points.at_a_point, alone="point"),
    Fault("lease taken", 0.8, fault_processes.take_lease),
    Fault("operator killed", 1.5, fault_processes.kill(OPERATORS), alone="operators"),
    Fault("api killed", 1.5, fault_processes.kill(APIS), alone="apis"),
    Fault("process ended", 0.8, fault_processes.end, alone="operators"),
    Fault("operator paused", 1.5, fault_processes.pause(OPERATORS, 11.0), alone="operators"),
    Fault("api paused", 1.0, fault_processes.pause(APIS, 5.0), alone="apis"),
    Fault("clock jumps", 3.0, fault_processes.jump),
    Fault("postgres crashed", 0.5, fault_servers.crash_postgres, alone="postgres"),
    Fault("postgres session killed", 0.6, fault_servers.kill_session, alone="postgres"),
    Fault("primary lost", 0.5, fault_failover.fail_over, alone="postgres"),
    Fault("disk full", 0.4, fault_servers.fill_disk, alone="postgres"),
    Fault("kube-apiserver killed", 0.25, fault_servers.restart("kube-apiserver"), alone="control plane"),
    Fault("etcd killed", 0.15, fault_servers.restart("etcd"), alone="control plane"),
)
