"""The properties that drivers take, by the place in the cloud config where they are written."""

from __future__ import annotations

from coterie.cpi.contract import Form, Place

# Path of the field in the cloud config → the form that reads it.
PLACES: dict[str, Place] = {
    "clouds.properties": "cloud",
    "azs.cloud_properties": "vm",
    "vm_types.cloud_properties": "vm",
    "disk_types.cloud_properties": "disk",
    "networks.cloud_properties": "network",
    "networks.subnets.cloud_properties": "network",
}


def describe(form: Form, key: str) -> str:
    """How a property is written, and whether it must be there."""
    words = [_sentence(form.how_to_write(key))]
    if key in form.needed:
        words.append(_sentence(f"required: {form.needed[key]}"))
    return " ".join(filter(None, words))


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""
