"""Settings that drivers over HTTP have by the same names."""

from __future__ import annotations

import pytest

from coterie.cpi.contract import Form, InvalidCall
from coterie.cpi.kit.http import HttpOptions
from coterie.cpi.kit.readers import readers_of
from coterie.cpi.kit.settings import HttpSettings
from coterie.slotted import dataclass


@dataclass(frozen=True, slots=True)
class Settings(HttpSettings):
    region: str = ""
    request_timeout: float = 130.0


FORM = Form(readers_of(Settings))


def test_a_driver_adds_fields_and_has_its_own_defaults() -> None:
    settings = Settings(**FORM.read({"region": "here", "retries": 3, "agent": {"mbus": "x"}}, "properties"))
    assert (settings.region, settings.retries, settings.request_timeout, settings.settle_s) == ("here", 3, 130.0, 60.0)
    assert settings.agent == {"mbus": "x"}


def test_the_way_to_the_cloud() -> None:
    settings = Settings(ca_cert="ca", proxy_url="http://user:secret@proxy", connect_timeout=3.0)
    assert settings.http_options() == HttpOptions(3.0, 130.0, "ca", False, "http://user:secret@proxy")
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(
    "given", [{"endpoint": "cloud"}, {"proxy_url": "https://proxy"}, {"retries": -1}, {"max_parallel_calls": 0}]
)
def test_what_cannot_be_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(InvalidCall):
        FORM.read(given, "properties")
