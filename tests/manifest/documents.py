"""A valid pair of documents to spoil, and the means to look at what is then found."""

from __future__ import annotations

from typing import Any

from coterie.errors import InvalidDocument
from coterie.manifest import load_both, load_cloud_config, load_deployment

DEPLOYMENT = """\
name: kafka
stemcells:
- alias: default
  name: debian-12
  version: "1.1"
security_groups:
- name: kafka
  rules:
  - {protocol: tcp, ports: 9092, cidr: 10.0.0.0/8}
instance_groups:
- name: controller
  instances: 3
  azs: [z1, z2]
  vm_type: small
  stemcell: default
  persistent_disk: 1024
  networks:
  - name: default
    static_ips: [10.20.1.10 - 10.20.1.11, 10.20.2.10]
  placement:
    policy: anti-affinity
- name: broker
  instances: 4
  azs: [z1, z2]
  vm_type: large
  stemcell: default
  persistent_disk_type: log
  networks:
  - name: default
  placement:
    server_group: data
  security_groups: [kafka]
- name: connect
  instances: 2
  azs: [z1]
  vm_type: small
  stemcell: default
  networks:
  - name: default
  placement:
    server_group: data
  security_groups: [kafka]
"""

CONFIG = """\
clouds:
- name: lab
  driver: sandbox
azs:
- name: z1
  cloud: lab
  cloud_properties: {zone: z1}
- name: z2
  cloud: lab
  cloud_properties: {zone: z2}
vm_types:
- name: small
  cloud_properties: {cpu: 1}
- name: large
  cloud_properties: {cpu: 4}
disk_types:
- name: log
  disk_size: 10240
networks:
- name: default
  type: manual
  subnets:
  - range: 10.20.1.0/24
    gateway: 10.20.1.1
    reserved: [10.20.1.2 - 10.20.1.9]
    static: [10.20.1.10 - 10.20.1.19]
    azs: [z1]
  - range: 10.20.2.0/24
    gateway: 10.20.2.1
    static: [10.20.2.10]
    az: z2
- name: cloudy
  type: dynamic
- name: floating
  type: vip
"""


def edited(text: str, *edits: tuple[str, str]) -> str:
    """`text` with the first occurrence of each old fragment replaced."""
    for old, new in edits:
        assert old in text, f"{old!r} is not in the document"
        text = text.replace(old, new, 1)
    return text


def line_of(text: str, fragment: str) -> int:
    assert fragment in text, f"{fragment!r} is not in the document"
    return text[: text.index(fragment)].count("\n") + 1


def mistakes_of_both(deployment: str = DEPLOYMENT, config: str = CONFIG, **options: Any) -> list[dict[str, Any]]:
    try:
        load_both((deployment, "kafka.yml"), (config, "cloud.yml"), **options)
    except InvalidDocument as error:
        return list(error.details["mistakes"])
    return []


def mistakes_of_deployment(text: str) -> list[dict[str, Any]]:
    try:
        load_deployment(text, "kafka.yml")
    except InvalidDocument as error:
        return list(error.details["mistakes"])
    return []


def mistakes_of_config(text: str, **options: Any) -> list[dict[str, Any]]:
    try:
        load_cloud_config(text, "cloud.yml", **options)
    except InvalidDocument as error:
        return list(error.details["mistakes"])
    return []
