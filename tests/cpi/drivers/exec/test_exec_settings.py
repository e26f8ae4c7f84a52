"""The properties of an exec cloud: each mistake is named, and no value is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.contract import InvalidCall
from coterie.cpi.drivers.exec.settings import read_settings


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "path"),
        ({"path": "cpi"}, "path"),
        ({"path": 7}, "path"),
        ({"path": "/cpi", "pth": "s3cret"}, "pth"),
        ({"path": "/cpi", "properties": ["s3cret"]}, "properties"),
        ({"path": "/cpi", "properties": {"director_uuid": "s3cret"}}, "properties"),
        ({"path": "/cpi", "env": "HOME"}, "env"),
        ({"path": "/cpi", "env": [""]}, "env"),
        ({"path": "/cpi", "timeout_s": 0}, "timeout_s"),
        ({"path": "/cpi", "timeout_s": True}, "timeout_s"),
        ({"path": "/cpi", "timeout_s": "s3cret"}, "timeout_s"),
        ({"path": "/cpi", "stemcell_api_version": 0}, "stemcell_api_version"),
        ({"path": "/cpi", "lacks": ["create_vm"]}, "lacks"),
        ({"path": "/cpi", "lacks": ["find"]}, "lacks"),
        ({"path": "/cpi", "lacks": ["cleanup"]}, "lacks"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidCall) as caught:
        read_settings(given)
    assert caught.value.what.startswith(f"properties.{named} ")
    assert caught.value.remedy
    assert "s3cret" not in str(caught.value) + caught.value.remedy


def test_all_of_them_together() -> None:
    settings = read_settings(
        {
            "path": "/cpi",
            "properties": {"a": 1},
            "env": ["X"],
            "timeout_s": 5,
            "stemcell_api_version": 3,
            "lacks": ["ping"][:0],
        },
    )
    assert (settings.path, settings.timeout_s, settings.env, settings.lacks) == ("/cpi", 5.0, ("X",), ())
    assert settings.context("d") == {"a": 1, "director_uuid": "d", "vm": {"stemcell": {"api_version": 3}}}
