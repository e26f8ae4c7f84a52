"""`coterie init`: a manifest and a cloud config to begin with, made from the driver's own examples."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.errors import UsageError

_MANIFEST = """\
# What shall run. `coterie explain instance_groups` documents the fields.
name: {name}

stemcells:
- {{alias: default, name: debian-12, version: latest}}

instance_groups:
- name: web
  instances: 3
  azs: [z1]
  vm_type: small
  stemcell: default
  persistent_disk: 10240
  networks:
  - name: default
  placement:
    policy: soft-anti-affinity
"""

_CLOUD_CONFIG = """\
# Where it runs. `coterie explain clouds.properties@{driver}` documents what the driver takes.
clouds:
- name: {driver}
  driver: {driver}
  properties: {cloud}

azs:
- name: z1
  cloud: {driver}

vm_types:
- name: small
  cloud_properties: {vm}

networks:
- name: default
  type: manual
  subnets:
  - range: 10.20.1.0/24
    gateway: 10.20.1.1
    reserved: [10.20.1.2 - 10.20.1.9]
    cloud_properties: {network}
"""


@verb("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False))
@click.option("--driver", default="sandbox", show_default=True, metavar="NAME", help="The driver of the cloud.")
@click.option("--name", default="first", show_default=True, help="The name of the deployment.")
def init(session: Session, folder: str, driver: str, name: str) -> None:
    """Write manifest.yml and cloud-config.yml into FOLDER. Files that are there are never overwritten."""
    from coterie.cpi.load import driver_class
    from coterie.manifest.load import load_cloud_config, load_deployment

    forms = driver_class(driver).forms
    written = {place: _flow(forms[place].example) if place in forms else "{}" for place in ("cloud", "vm", "network")}
    texts = {
        "manifest.yml": _MANIFEST.format(name=name),
        "cloud-config.yml": _CLOUD_CONFIG.format(driver=driver, **written),
    }
    load_deployment(texts["manifest.yml"], "manifest.yml")  # a name that cannot be used is refused here
    load_cloud_config(texts["cloud-config.yml"], "cloud-config.yml")
    _write(Path(folder), texts)
    session.say(f"wrote {' and '.join(texts)} in {folder}; adapt them, then:")
    manifest, config = (shlex.quote(str(Path(folder) / name)) for name in texts)
    session.say(f"  coterie validate {manifest} --cloud-config {config}")
    session.say(f"  coterie clouds set {config}")
    session.say("  coterie stemcells upload FILE")
    session.say(f"  coterie deploy {manifest}")


def _flow(values: Any) -> str:
    """JSON is YAML."""
    return json.dumps(dict(values), ensure_ascii=False)


def _write(folder: Path, texts: dict[str, str]) -> None:
    there = [name for name in texts if (folder / name).exists()]
    if there:
        raise UsageError(
            f"there is already {' and '.join(there)} in {folder}", remedy="choose another folder: coterie init FOLDER"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with (folder / name).open("x", encoding="utf-8") as out:
                out.write(text)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}", why=error.strerror or str(error), remedy="check it") from error
