"""The configuration files of all services: small pools, cheap hashes, everything on loopback."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from tests.peers.openstack.files import write, write_ini
from tests.peers.openstack.layout import PASSWORD, REGION, Layout

Options = dict[str, Any]
Sections = dict[str, Options]
CLOUDS = {"oslab": "demo", "oslab-admin": "admin", "oslab-other": "other"}  # name → user and project
_FOLDERS = (
    *("etc/placement", "etc/glance", "log", "run", "tmp", "shipped", "nova", "neutron", "cinder"),
    *("glance/images", "glance/staging", "rabbitmq"),
)
_POOL: Options = {"max_pool_size": 20, "max_overflow": 40}
_SILENT: Options = {"driver": "noop"}
_RABBIT: Options = {"heartbeat_timeout_threshold": 0}


def make_folders(layout: Layout) -> None:
    for name in _FOLDERS:
        Path(layout.path(name)).mkdir(mode=0o700, parents=True, exist_ok=True)


def configure(layout: Layout) -> None:
    path = layout.path
    write_ini(path("etc/keystone.conf"), _keystone(layout))
    write_ini(path("etc/placement/placement.conf"), _placement(layout))
    write_ini(path("etc/glance/glance-api.conf"), _glance(layout))
    write_ini(path("etc/neutron.conf"), _neutron(layout))
    write_ini(path("etc/nova.conf"), _nova(layout))
    write_ini(path("etc/cinder.conf"), _cinder(layout))
    for host in layout.hosts:
        Path(path("nova", host)).mkdir(exist_ok=True)
        lock = {"lock_path": path(f"tmp/nova-{host}")}
        own = {"DEFAULT": {"host": host, "state_path": path("nova", host)}, "oslo_concurrency": lock}
        write_ini(path(f"etc/nova-compute-{host}.conf"), own)
    _keys(layout)
    _broker(layout)
    clouds = {name: _cloud(layout, user) for name, user in CLOUDS.items()}
    write(path("clouds.yaml"), json.dumps({"clouds": clouds}, indent=2) + "\n")  # JSON is YAML
    write(path("ports"), f"{layout.base}\n")


def _keystone(layout: Layout) -> Sections:
    return {
        "DEFAULT": _logging(layout, "keystone"),
        "database": {**_POOL, "connection": layout.database("keystone")},
        "token": {"provider": "fernet", "expiration": 86400},
        "fernet_tokens": {"key_repository": layout.path("etc/fernet")},
        "fernet_receipts": {"key_repository": layout.path("etc/fernet")},
        "credential": {"key_repository": layout.path("etc/credential")},
        "cache": {"enabled": "true", "backend": "oslo_cache.dict"},
        "identity": {"password_hash_rounds": 4},  # every login costs CPU, and nothing here is secret
    }


def _placement(layout: Layout) -> Sections:
    return {
        "DEFAULT": _logging(layout, "placement"),
        "placement_database": {**_POOL, "connection": layout.database("placement")},
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": _authtoken(layout),
    }


def _glance(layout: Layout) -> Sections:
    images = {"stores": "file", "default_store": "file", "filesystem_store_datadir": layout.path("glance/images")}
    return {
        "DEFAULT": {
            **_logging(layout, "glance"),
            "bind_host": "127.0.0.1",
            "bind_port": layout.port["glance"],
            "workers": 0,
            "transport_url": layout.amqp,
            "node_staging_uri": f"file://{layout.path('glance/staging')}",
        },
        "database": {**_POOL, "connection": layout.database("glance")},
        "glance_store": images,
        "paste_deploy": {"flavor": "keystone", "config_file": layout.path("shipped/glance-paste.ini")},
        "keystone_authtoken": _authtoken(layout),
        "oslo_concurrency": {"lock_path": layout.path("tmp/glance")},
        "oslo_messaging_notifications": _SILENT,
    }


def _neutron(layout: Layout) -> Sections:
    return {
        "DEFAULT": {
            **_logging(layout, "neutron"),
            "bind_host": "127.0.0.1",
            "bind_port": layout.port["neutron"],
            "state_path": layout.path("neutron"),
            "core_plugin": "ml2",
            "service_plugins": "router",
            "api_paste_config": layout.path("shipped/neutron-paste.ini"),
            "transport_url": layout.amqp,
            "api_workers": 1,
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            "agent_down_time": 600,  # the stand-in for agents reports now and then only
            "notify_nova_on_port_status_changes": "true",
            "notify_nova_on_port_data_changes": "true",
            "dhcp_agent_notification": "false",
        },
        **_shared(layout, "neutron"),
        "nova": _service(layout),
        "placement": _service(layout),
        "ml2": {
            "type_drivers": "flat,vlan,vxlan",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "openvswitch",
            "extension_drivers": "port_security",
        },
        "ml2_type_flat": {"flat_networks": "*"},
        "ml2_type_vxlan": {"vni_ranges": "1:5000"},
        "securitygroup": {"enable_security_group": "true"},
    }


def _nova(layout: Layout) -> Sections:
    return {
        "DEFAULT": {
            **_logging(layout),
            "host": "control",
            "my_ip": "127.0.0.1",
            "state_path": layout.path("nova"),
            "transport_url": layout.amqp,
            "compute_driver": "fake.FakeDriver",
            "osapi_compute_listen": "127.0.0.1",
            "osapi_compute_listen_port": layout.port["nova"],
            "osapi_compute_workers": 1,
            "enabled_apis": "osapi_compute",
            # the fake hypervisor forgets its guests when its process ends: what is recorded stays true
            "sync_power_state_interval": -1,
            "resume_guests_state_on_host_boot": "false",
            "periodic_fuzzy_delay": 0,
            "allow_resize_to_same_host": "true",
            "rpc_response_timeout": 120,
            "service_down_time": 120,
        },
        "api": {"auth_strategy": "keystone"},
        "wsgi": {"api_paste_config": layout.path("shipped/nova-paste.ini")},
        "api_database": {**_POOL, "connection": layout.database("nova_api")},
        **_shared(layout, "nova"),
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 5},
        # tests make boots fail on purpose; Nova would shun the host of one until another has gone well there
        "filter_scheduler": {"build_failure_weight_multiplier": 0},
        # room for tests; server_groups and server_group_members keep their defaults: 10 and 10
        "quota": {"instances": 200, "cores": 1000, "ram": -1},
        "service_user": _service(layout, send_service_user_token="true"),
        "placement": _service(layout),
        "neutron": _service(layout),
        "glance": {"region_name": REGION},
        "cinder": _service(layout, catalog_info="volumev3::publicURL", os_region_name=REGION),
        "vnc": {"enabled": "false"},
    }


def _cinder(layout: Layout) -> Sections:
    return {
        "DEFAULT": {
            **_logging(layout),
            "host": "control",
            "my_ip": "127.0.0.1",
            "state_path": layout.path("cinder"),
            "transport_url": layout.amqp,
            "osapi_volume_listen": "127.0.0.1",
            "osapi_volume_listen_port": layout.port["cinder"],
            "osapi_volume_workers": 1,
            "api_paste_config": layout.path("shipped/cinder-paste.ini"),
            "auth_strategy": "keystone",
            "enabled_backends": "null",
            "glance_api_servers": layout.url["glance"],
            "resource_query_filters_file": layout.path("shipped/cinder-filters.json"),
            "service_down_time": 120,
            "periodic_fuzzy_delay": 0,
        },
        "null": {"volume_driver": "oslab_cinder.NullDriver", "volume_backend_name": "null"},
        **_shared(layout, "cinder"),
        "nova": _service(layout, interface="public"),
        "service_user": _service(layout, send_service_user_token="true"),
    }


def _shared(layout: Layout, name: str) -> Sections:
    return {
        "database": {**_POOL, "connection": layout.database(name)},
        "keystone_authtoken": _authtoken(layout),
        "oslo_concurrency": {"lock_path": layout.path(f"tmp/{name}")},
        "oslo_messaging_rabbit": _RABBIT,
        "oslo_messaging_notifications": _SILENT,
    }


def _logging(layout: Layout, name: str | None = None) -> Options:
    file = {"log_file": layout.path(f"log/{name}.log")} if name else {}
    return {"use_stderr": "false", "debug": layout.debug, **file}


def _login(layout: Layout, user: str) -> Options:
    return {
        "auth_url": f"{layout.url['keystone']}/v3",
        "username": user,
        "password": PASSWORD,
        "project_name": user,
        "user_domain_name": "Default",
        "project_domain_name": "Default",
    }


def _service(layout: Layout, **more: str) -> Options:
    return {"auth_type": "password", **_login(layout, "service"), "region_name": REGION, **more}


def _authtoken(layout: Layout) -> Options:
    login = {"auth_type": "password", **_login(layout, "service")}
    return {**login, "www_authenticate_uri": login["auth_url"], "service_token_roles_required": "true"}


def _cloud(layout: Layout, user: str) -> Options:
    return {"region_name": REGION, "identity_api_version": 3, "auth": _login(layout, user)}


def _keys(layout: Layout) -> None:
    for repository in ("fernet", "credential"):
        folder = Path(layout.path("etc", repository))
        folder.mkdir(mode=0o700, exist_ok=True)
        for number in "01":
            if not (folder / number).exists():
                write(folder / number, base64.urlsafe_b64encode(os.urandom(32)).decode())


def _broker(layout: Layout) -> None:
    lines = (
        f"listeners.tcp.1 = 127.0.0.1:{layout.port['amqp']}",
        "log.file.level = warning",
        "disk_free_limit.absolute = 50MB",
        "vm_memory_high_watermark.absolute = 1GB",
    )
    write(layout.path("etc/rabbitmq.conf"), "\n".join(lines) + "\n")
    write(layout.path("etc/enabled_plugins"), "[].\n")
