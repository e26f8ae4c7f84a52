"""`coterie schema`: the JSON Schema of the manifest or the cloud config. Needs no Director."""

from __future__ import annotations

import click

from coterie.cli.frame.session import Session
from coterie.cli.frame.verb import verb
from coterie.cli.show.table import as_json


@verb("schema")
@click.argument("document", type=click.Choice(["manifest", "cloud-config"]))
@click.option(
    "--driver", "drivers", multiple=True, metavar="NAME", help="Offer the properties of this driver only; repeatable."
)
def schema(session: Session, document: str, drivers: tuple[str, ...]) -> None:
    """Print a JSON Schema, with which editors complete and explain fields.

    Save it, and name it in the first line of a document: `# yaml-language-server: $schema=manifest.schema.json`.
    """
    from coterie.cpi.load import driver_class, driver_names
    from coterie.manifest.json_schema import cloud_config_schema, manifest_schema

    if document == "manifest":
        session.data(as_json(manifest_schema()))
        return
    session.data(as_json(cloud_config_schema({name: driver_class(name).forms for name in drivers or driver_names()})))
