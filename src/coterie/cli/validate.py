"""`coterie validate`: all mistakes of documents that can be found without a Director and without a cloud."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.errors import InvalidDocument, UsageError

if TYPE_CHECKING:
    from coterie.cpi.contract import Capabilities


@verb("validate")
@click.argument("manifest", required=False)
@click.option("--cloud-config", metavar="FILE", help="Check this cloud config too, and both against each other.")
def validate(session: Session, manifest: str | None, cloud_config: str | None) -> None:
    """Check a manifest, a cloud config, or both against each other. Asks no Director and no cloud.

    Policies of server groups are checked where the properties of a cloud tell what it can do. `coterie plan` also
    checks what only the Director and the clouds know: stemcells, addresses in use, quotas.
    """
    from coterie.cpi.load import driver_names, forms_of
    from coterie.manifest.load import load_both, load_cloud_config, load_deployment

    if manifest and cloud_config:
        wanted, offered = (read(manifest), manifest), (read(cloud_config), cloud_config)
        load_both(wanted, offered, _capabilities(*offered), drivers=driver_names(), forms_of=forms_of)
    elif manifest:
        load_deployment(read(manifest), manifest)
    elif cloud_config:
        load_cloud_config(read(cloud_config), cloud_config, drivers=driver_names(), forms_of=forms_of)
    else:
        raise UsageError("nothing to check", remedy="name a manifest, a cloud config (--cloud-config FILE), or both")
    session.say(f"no mistakes in {' and '.join(filter(None, (manifest, cloud_config)))}")


def _capabilities(text: str, file: str) -> dict[str, Capabilities]:
    """By cloud, as far as the cloud config tells. Nothing of one with mistakes, which are reported."""
    from coterie.cpi.load import capabilities_without_cloud, driver_names, forms_of
    from coterie.manifest.load import load_cloud_config

    try:
        config = load_cloud_config(text, file, drivers=driver_names(), forms_of=forms_of).value
    except InvalidDocument:
        return {}
    found = {one.name: capabilities_without_cloud(one.driver, one.name, one.properties) for one in config.clouds}
    return {name: able for name, able in found.items() if able is not None}
