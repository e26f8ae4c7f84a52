"""What fields mean, over the API: words and examples of the program's own, whole."""

from __future__ import annotations

import pytest

from coterie.cpi.load import driver_names, forms_of
from coterie.manifest.explain import paths
from coterie.manifest.properties import PLACES
from tests.director.asgi import Client

OF_DRIVERS = [
    f"{place}@{driver}" for driver in driver_names() for place, form in PLACES.items() if form in forms_of(driver)
]


@pytest.mark.parametrize("root", ["deployment", "cloud_config"])
def test_no_example_of_a_field_is_hidden(client: Client, root: str) -> None:
    for path in (root, *paths(root)):
        reply = client.get(f"/v1/explain/{path}")
        assert reply.status == 200, path
        assert "redacted" not in reply.text, path


@pytest.mark.parametrize("path", OF_DRIVERS)
def test_no_example_of_a_driver_is_hidden(client: Client, path: str) -> None:
    reply = client.get(f"/v1/explain/{path}")
    assert reply.status == 200 and "redacted" not in reply.text
    for key in reply.json["children"]:
        assert "redacted" not in client.get(f"/v1/explain/{path}.{key}").text, key
