"""AMQP SOCKET HOSTS: stands in for the Open vSwitch agents of the fake hosts.

Reports them alive to neutron-server, and the ports bound to them as wired: that makes Neutron tell Nova.
"""

import datetime
import sys
import time
import uuid

import oslo_messaging
import pymysql
from oslo_config import cfg

REPORT_S = 30
WHO = {"is_admin": True, "roles": ["admin"], "user_id": None, "project_id": None, "tenant_id": None}
UNWIRED = (
    "select p.id, b.host from ports p join ml2_port_bindings b on b.port_id = p.id where p.status <> 'ACTIVE'"
    " and b.vif_type = 'ovs' and b.status = 'ACTIVE' and p.admin_state_up"
)
ABILITIES = {
    "bridge_mappings": {"physnet1": "br-ex"},
    "tunnel_types": ["vxlan"],
    "tunneling_ip": "127.0.0.1",
    "datapath_type": "system",
    "ovs_hybrid_plug": False,
    "vhostuser_socket_dir": "/tmp",
    "devices": 0,
    "l2_population": False,
    "extensions": [],
    "in_distributed_mode": False,
    "log_agent_heartbeats": False,
    "arp_responder_enabled": False,
}


class Agents:
    def __init__(self, amqp, socket, hosts):
        cfg.CONF([], project="neutron", default_config_files=[])  # messaging registers its options on this one
        self.transport = oslo_messaging.get_rpc_transport(cfg.CONF, url=amqp)
        self.reports = self.client("q-reports-plugin", "1.2")
        self.plugin = self.client("q-plugin", "1.9")
        self.socket, self.hosts = socket, hosts
        self.first = True

    def client(self, topic, version):
        target = oslo_messaging.Target(topic=topic, version=version, exchange="neutron")
        make = getattr(oslo_messaging, "get_rpc_client", None) or oslo_messaging.RPCClient
        return make(self.transport, target)

    def report(self):
        for host in self.hosts:
            state = {
                "binary": "neutron-openvswitch-agent",
                "host": host,
                "topic": "N/A",
                "agent_type": "Open vSwitch agent",
                "uuid": str(uuid.uuid4()),
                "configurations": ABILITIES,
                **({"start_flag": True} if self.first else {}),
            }
            now = datetime.datetime.utcnow().strftime("%Y-%m-%dT%H:%M:%S.%f")
            # short, because a request sent before neutron-server listens is lost
            self.reports.prepare(timeout=5).call(WHO, "report_state", agent_state={"agent_state": state}, time=now)
        self.first = False

    def wire(self, until):
        database = pymysql.connect(unix_socket=self.socket, user="root", database="neutron", autocommit=True)
        try:
            while time.time() < until:
                with database.cursor() as cursor:
                    cursor.execute(UNWIRED)
                    rows = cursor.fetchall()
                for port, host in rows:
                    if host in self.hosts:
                        facts = {"device": port, "host": host, "agent_id": f"ovs-agent-{host}"}
                        self.plugin.prepare(timeout=30).call(WHO, "update_device_up", **facts)
                time.sleep(0.5)
        finally:
            database.close()


agents = Agents(sys.argv[1], sys.argv[2], sys.argv[3].split(","))
while True:
    try:
        agents.report()
        agents.wire(time.time() + REPORT_S)
    except Exception as error:
        print("again after", repr(error)[:300], flush=True)
        time.sleep(1)
