"""What the official stemcell builder writes into `stemcell.MF` for each infrastructure that our drivers can serve."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML

_MANIFEST = """\
---
name: bosh-{name}-ubuntu-jammy-go_agent
version: '1.785'
bosh_protocol: 1
api_version: 3
sha1: da39a3ee5e6b4b0d3255bfef95601890afd80709
operating_system: ubuntu-jammy
stemcell_formats:
{formats}
agent_features: []
cloud_properties:
  name: bosh-{name}-ubuntu-jammy-go_agent
  version: '1.785'
  infrastructure: {infrastructure}
  hypervisor: {hypervisor}
  disk: 3072
  disk_format: {disk_format}
  container_format: bare
  os_type: linux
  os_distro: ubuntu
  architecture: x86_64
  {more}
"""
_INFRASTRUCTURES = {
    "openstack-qcow2": ("openstack", "kvm", "qcow2", ("openstack-qcow2", "openstack-raw"), "auto_disk_config: true"),
    "openstack-raw": ("openstack", "kvm", "raw", ("openstack-qcow2", "openstack-raw"), "auto_disk_config: true"),
    "cloudstack-vhdx": ("cloudstack", "xen", "vhdx", ("cloudstack-vhdx",), "auto_disk_config: true"),
    "vsphere-ovf": ("vsphere", "esxi", "ovf", ("vsphere-ova", "vsphere-ovf"), "root_device_name: /dev/sda1"),
}


def cloud_properties(which: str) -> dict[str, Any]:
    return dict(manifest(which)["cloud_properties"])


def manifest(which: str) -> dict[str, Any]:
    infrastructure, hypervisor, disk_format, formats, more = _INFRASTRUCTURES[which]
    text = _MANIFEST.format(
        name=f"{infrastructure}-{hypervisor}",
        infrastructure=infrastructure,
        hypervisor=hypervisor,
        disk_format=disk_format,
        formats="\n".join(f"- {one}" for one in formats),
        more=more,
    )
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return document
