"""The version matrix: what each api_version sends and gets."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.cpi.wire import METHODS


@pytest.mark.parametrize("version", [None, 1, 2, 3])
@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_at_every_version_takes_its_arity_and_refuses_others(
    name: str, version: int | None, server: Any, samples: dict[str, list[Any]]
) -> None:
    server.cleanup = lambda *_: {}
    method = METHODS[name]
    fewest, most = method.arity(version or 1)
    if (version or 1) < method.since:
        assert server.send(name, samples[name], version)["error"]["type"] == "Bosh::Clouds::CpiError"
        return
    for count in range(most + 2):
        arguments = [*samples[name], "one too many"][:count]
        error = server.send(name, arguments, version)["error"]
        assert (error is None) == (fewest <= count <= most), (count, error)


@pytest.mark.parametrize(
    ("version", "result"),
    [
        (None, "i-1"),
        (1, "i-1"),
        (2, ["i-1", {"default": {"ip": "10.0.0.2"}}]),
        (3, ["i-1", {"default": {"ip": "10.0.0.2"}}]),
    ],
)
def test_create_vm_answers_a_string_in_version_1_and_a_pair_later(
    version: int | None, result: Any, server: Any, samples: dict[str, list[Any]]
) -> None:
    assert server.send("create_vm", samples["create_vm"], version)["result"] == result


@pytest.mark.parametrize(("version", "result"), [(None, None), (1, None), (2, "/dev/sdb"), (3, "/dev/sdb")])
def test_attach_disk_has_a_hint_from_version_2_on(version: int | None, result: Any, server: Any) -> None:
    server.answers["attach_disk"] = "/dev/sdb"
    assert server.send("attach_disk", ["i-1", "d-1"], version)["result"] == result


def test_create_stemcell_has_tags_from_version_3_on(server: Any) -> None:
    server.send("create_stemcell", ["/image", {}, {"tags": {"a": "b"}}], 3)
    assert server.calls[-1][1] == ("/image", {}, {"tags": {"a": "b"}})

    server.send("create_stemcell", ["/image", None], 2)
    assert server.calls[-1][1] == ("/image", {})

    error = server.send("create_stemcell", ["/image", {}, {}], 2)["error"]
    assert error["message"].startswith("`arguments` of create_stemcell must be 2 (image_path, cloud_properties), not 3")


def test_version_1_may_leave_out_what_later_versions_need(server: Any, samples: dict[str, list[Any]]) -> None:
    server.send("create_vm", samples["create_vm"][:4], 1)
    assert server.calls[-1][1][4:] == ([], {})
    server.send("create_disk", [1024, {}], 1)
    assert server.calls[-1][1] == (1024, {}, None)


@pytest.mark.parametrize("version", [None, 1, 2, 3, 4, 99])
def test_info_answers_whatever_version_asks_and_needs_no_context(version: int | None, server: Any) -> None:
    assert server.send("info", [], version)["result"] == {"api_version": 3, "stemcell_formats": ["raw"]}
    assert server.raw(b'{"method":"info","arguments":[]}')["error"] is None


@pytest.mark.parametrize("version", [0, -1, 4, True, "2", 2.0, [2]])
def test_an_unknown_version_is_refused(version: Any, server: Any) -> None:
    error = server.send("has_vm", ["i-1"], version)["error"]
    assert "`api_version`" in error["message"]
    assert server.calls == []
