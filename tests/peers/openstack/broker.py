"""RabbitMQ, on ports of its own and with a port mapper of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.peers.openstack.layout import Layout
from tests.peers.openstack.processes import Processes
from tests.peers.openstack.reach import listening


def start_broker(layout: Layout, processes: Processes) -> None:
    if processes.leader("rabbitmq"):
        return
    mapper = str(layout.port["epmd"])
    env = _environment(layout)
    processes.spawn("epmd", ["epmd", "-port", mapper, "-address", "127.0.0.1"], env)
    processes.await_("epmd", lambda: listening(layout.port["epmd"]), ["epmd"])
    queues = Path(layout.path("rabbitmq"))
    shutil.rmtree(queues, ignore_errors=True)  # answers to messages of an earlier run would have no receiver
    queues.mkdir()
    processes.spawn("rabbitmq", ["/usr/lib/rabbitmq/bin/rabbitmq-server"], env)


def _environment(layout: Layout) -> dict[str, str]:
    return {
        "RABBITMQ_NODENAME": f"oslab{layout.base}@localhost",
        "RABBITMQ_MNESIA_BASE": layout.path("rabbitmq"),
        "RABBITMQ_LOG_BASE": layout.path("log"),
        "RABBITMQ_CONFIG_FILE": layout.path("etc/rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": layout.path("etc/enabled_plugins"),
        "RABBITMQ_NODE_PORT": str(layout.port["amqp"]),
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(layout.port["amqp_dist"]),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "ERL_EPMD_PORT": str(layout.port["epmd"]),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": ("-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +A 8 +sbwt none"),
    }
