"""`coterie validate`: all mistakes of documents that can be found without a Director and without a cloud."""

from __future__ import annotations

import click

from coterie.cli.frame.documents import read
from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.errors import UsageError


@verb("validate")
@click.argument("manifest", required=False)
@click.option("--cloud-config", metavar="FILE", help="Check this cloud config too, and both against each other.")
def validate(session: Session, manifest: str | None, cloud_config: str | None) -> None:
    """Check a manifest, a cloud config, or both against each other. Asks no Director and no cloud.

    `coterie plan` also checks what only the Director and the clouds know: stemcells, addresses in use, quotas.
    """
    from coterie.cpi.load import driver_names, forms_of
    from coterie.manifest.load import load_both, load_cloud_config, load_deployment

    if manifest and cloud_config:
        documents = (read(manifest), manifest), (read(cloud_config), cloud_config)
        load_both(*documents, drivers=driver_names(), forms_of=forms_of)
    elif manifest:
        load_deployment(read(manifest), manifest)
    elif cloud_config:
        load_cloud_config(read(cloud_config), cloud_config, drivers=driver_names(), forms_of=forms_of)
    else:
        raise UsageError("nothing to check", remedy="name a manifest, a cloud config (--cloud-config FILE), or both")
    session.say(f"no mistakes in {' and '.join(filter(None, (manifest, cloud_config)))}")
