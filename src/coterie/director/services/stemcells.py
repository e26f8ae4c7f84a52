"""Changes of the stemcell catalogue: the row and the file in the store come and go together."""

from __future__ import annotations

from typing import Any

from coterie.director.context import Office
from coterie.director.services.stemcell_upload import Taken
from coterie.errors import Conflict, Refused
from coterie.ledger.rows import stemcells
from coterie.ledger.views import stemcells as view


def add(office: Office, taken: Taken) -> None:
    """Catalogue an image that lies in the store; one that is refused does not stay there."""
    try:
        with office.ledger.write() as tx:
            row = (taken.name, taken.version, taken.image, taken.sha256, taken.cloud_properties, taken.formats)
            stemcells.add(tx, *row, taken.os)
    except Conflict:
        with office.ledger.read() as tx:
            present = stemcells.get(tx, taken.name, taken.version)
        if present is None or present.image != taken.image:
            (office.home.stemcells / taken.image).unlink(missing_ok=True)
        raise


def add_light(
    office: Office, name: str, version: str, os: str | None, cloud_properties: dict[str, Any], formats: list[str]
) -> None:
    with office.ledger.write() as tx:
        stemcells.add(tx, name, version, None, None, cloud_properties, formats, os)


def delete(office: Office, name: str, version: str) -> None:
    """Refused while a cloud holds an image of it: a deployment may still need it to make another VM."""
    with office.ledger.write() as tx:
        held = view.one(tx, name, version)["clouds"]
        if held:
            raise Refused(
                f"stemcell {name}/{version} is kept",
                why=f"clouds hold an image of it: {', '.join(held)}",
                remedy="move the deployments that use it to another version first",
            )
        row = stemcells.get(tx, name, version)
        stemcells.delete(tx, name, version)
    # The row went first: a file without a row is waste, a row without its file a lie.
    if row is not None and row.image is not None:
        (office.home.stemcells / row.image).unlink(missing_ok=True)
