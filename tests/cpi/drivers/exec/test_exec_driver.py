"""The exec driver against small foreign programs."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from coterie.cpi.contract import (
    CpiError,
    InvalidCall,
    Mark,
    Needs,
    NotImplementedHere,
    NotSupported,
    OutcomeUnknown,
    VmCreated,
    VMCreationFailed,
)
from coterie.cpi.drivers.exec.driver import ExecCpi

NETWORKS = {"default": {"type": "manual", "ip": "127.0.0.9", "cloud_properties": {}}}


def seen(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "seen").read_text().splitlines()]


@pytest.mark.parametrize(("reported", "spoken"), [(2, 2), (3, 3), (4, 3), (17, 3)])
def test_the_version_is_the_lower_of_both_and_info_is_asked_once(
    reported: int, spoken: int, foreign: Any, tmp_path: Path
) -> None:
    cpi: ExecCpi = foreign(f"info({reported})\nsay(True)")
    assert cpi.has_vm("i-1") is True
    assert cpi.has_vm("i-2") is True
    assert cpi.info() == {"api_version": spoken, "stemcell_formats": ["raw"]}
    assert cpi.ping()

    first, *others = seen(tmp_path)
    assert (first["method"], "api_version" in first) == ("info", False)
    assert [(one["method"], one["api_version"]) for one in others] == [("has_vm", spoken), ("has_vm", spoken)]


@pytest.mark.parametrize(
    ("reported", "arguments"),
    [
        (2, ["/image", {"os": "x"}]),
        (3, ["/image", {"os": "x"}, {"tags": {"a": "b"}}]),
    ],
)
def test_create_stemcell_gets_its_tags_in_version_3_only(
    reported: int, arguments: list[Any], foreign: Any, tmp_path: Path, mark: Mark
) -> None:
    cpi = foreign(f"info({reported})\nsay('img-1')")
    assert cpi.create_stemcell("/image", {"os": "x"}, {"tags": {"a": "b"}}, mark=mark) == "img-1"
    assert seen(tmp_path)[-1]["arguments"] == arguments


@pytest.mark.parametrize(
    "body",
    [
        "info(1)",
        "say({'stemcell_formats': []})",
        "fail('Bosh::Clouds::NotImplemented', 'no')",
        "fail('InvalidCall', 'Method is not known, got info')",
    ],
)
def test_a_program_of_version_1_is_refused_with_the_remedy(body: str, foreign: Any) -> None:
    cpi = foreign(body)
    with pytest.raises(NotSupported, match="speaks api_version 1 only") as caught:
        cpi.has_vm("i-1")
    assert "api_version 2 or 3" in caught.value.remedy
    item = next(item for item in cpi.check() if item.what == "info")
    assert (item.ok, item.remedy) == (False, caught.value.remedy)


@pytest.mark.parametrize(
    "body",
    [
        "print('hello')",
        "sys.exit(3)",
        "say('text')",
        "say({'api_version': '2'})",
        "fail('Bosh::Clouds::CloudError', 'bad credentials')",
        "os.kill(os.getpid(), 9)",
    ],
)
def test_a_program_that_fails_info_is_refused_with_the_remedy(body: str, foreign: Any) -> None:
    cpi = foreign(body)
    with pytest.raises(CpiError) as caught:
        cpi.create_vm("a", "s", {}, {}, [], {}, mark=Mark("d" * 36, "0" * 26))
    assert caught.value.remedy
    assert not isinstance(caught.value, OutcomeUnknown)


def test_the_context_is_as_a_director_sends_it(foreign: Any, tmp_path: Path, mark: Mark) -> None:
    cpi = foreign("info()\nsay(['i-1', {}])", properties={"url": "u", "user": "me"}, stemcell_api_version=3)
    assert cpi.create_vm("agent", "img", {"cpu": 1}, NETWORKS, ("d-1",), {"bosh": {}}, mark=mark) == VmCreated(
        "i-1", {}
    )

    request = seen(tmp_path)[-1]
    assert request["arguments"] == ["agent", "img", {"cpu": 1}, NETWORKS, ["d-1"], {"bosh": {}}]
    assert request["context"] == {
        "url": "u",
        "user": "me",
        "director_uuid": mark.director,
        "vm": {"stemcell": {"api_version": 3}},
        "coterie": {"mark": mark.wire()},
    }


def test_the_environment_is_scrubbed_and_there_are_no_arguments(foreign: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HOME", "/home/me"), ("TMPDIR", "/tmp"), ("AWS_SECRET", "s"), ("https_proxy", "p")):
        monkeypatch.setenv(name, value)
    cpi = foreign("info()\nsay({'argv': sys.argv[1:], 'env': dict(os.environ)})", env=["https_proxy", "not_set"])
    told = cpi.calculate_vm_cloud_properties({"cpu": 1, "ram": 1, "ephemeral_disk_size": 1})
    told["env"].pop("LC_CTYPE", None)  # the interpreter of the program sets it itself
    assert told == {
        "argv": [],
        "env": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/me", "TMPDIR": "/tmp", "https_proxy": "p"},
    }


@pytest.mark.parametrize(
    "body",
    [
        "time.sleep(600)",
        "print('no json')",
        "print('{}')",
        "say(True); say(True)",
        "pass",
        "os.kill(os.getpid(), 9)",
        "say(None)",
    ],
)
def test_without_a_readable_answer_the_outcome_of_a_change_is_unknown(body: str, foreign: Any, mark: Mark) -> None:
    cpi = foreign(f"info()\n{body}")
    cpi.info()
    cpi._program._settings = _impatient(cpi)
    with pytest.raises(OutcomeUnknown) as caught:
        cpi.create_disk(1024, {}, mark=mark)
    assert caught.value.why
    assert caught.value.remedy
    with pytest.raises(CpiError) as caught_too:
        cpi.has_disk("d-1")
    assert type(caught_too.value) is CpiError


def _impatient(cpi: ExecCpi) -> Any:
    from dataclasses import replace

    # Only now: starting an interpreter for `info` may take longer than this on a busy machine.
    return replace(cpi._settings, timeout_s=1.0)


@pytest.mark.parametrize("mode", [0o644, None])
def test_a_program_that_cannot_run_is_a_wrong_property(mode: int | None, tmp_path: Path, foreign: Any) -> None:
    cpi = foreign("info()")
    path = tmp_path / "cpi"
    if mode is None:
        path.unlink()
    else:
        path.chmod(mode)
    with pytest.raises(InvalidCall, match="cannot be started") as caught:
        cpi.delete_vm("i-1")
    assert "`path`" in caught.value.remedy
    assert [item.ok for item in cpi.check()] == [False, False]


def test_errors_of_the_program_are_contract_errors_with_a_remedy(foreign: Any, mark: Mark) -> None:
    cpi = foreign("info()\nfail('Bosh::Clouds::VMCreationFailed', 'no host', True)")
    with pytest.raises(VMCreationFailed, match="no host") as caught:
        cpi.create_vm("a", "s", {}, {}, [], {}, mark=mark)
    assert caught.value.retryable
    assert caught.value.remedy


def test_a_method_that_the_program_does_not_have_says_what_to_configure(foreign: Any) -> None:
    cpi = foreign("info()\nfail('InvalidCall', 'Method is not known, got reboot_vm')")
    with pytest.raises(NotImplementedHere) as caught:
        cpi.reboot_vm("i-1")
    assert "`lacks`" in caught.value.remedy


def test_what_the_program_lacks_is_declared_and_refused_without_starting_it(foreign: Any, tmp_path: Path) -> None:
    cpi = foreign("info()", lacks=["resize_disk", "snapshot_disk", "create_network"])
    capabilities = cpi.capabilities()
    assert not capabilities.resize_disk
    assert {"snapshot_disk", "create_network"} <= set(capabilities.unsupported)
    assert capabilities.kinds == {"image": "none", "vm": "none", "disk": "none"}
    assert "lacks" in capabilities.unsupported["resize_disk"].citation
    with pytest.raises(NotSupported):
        cpi.resize_disk("d-1", 2048)
    assert not (tmp_path / "seen").exists()


def test_lists_marks_and_groups_are_declared_impossible(foreign: Any, mark: Mark, tmp_path: Path) -> None:
    cpi = foreign("info()")
    capabilities = cpi.capabilities()
    assert not capabilities.finds
    assert capabilities.policies == frozenset()
    assert set(capabilities.kinds.values()) == {"none"}
    for reason in capabilities.unsupported.values():
        assert reason.why
        assert reason.citation
    with pytest.raises(NotSupported, match="find") as caught:
        cpi.find("vm", mark)
    assert capabilities.unsupported["find"].why in str(caught.value)
    assert not (tmp_path / "seen").exists()


def test_check_tells_the_version_the_formats_and_what_needs_cannot_be_met(foreign: Any) -> None:
    items = {
        item.what: item
        for item in foreign("info(2)").check(Needs(policies=("affinity",), kinds=("vm", "server_group")))
    }
    assert items["program"].ok
    assert items["info"].ok
    assert items["info"].facts == {"api_version": 2, "stemcell_formats": ["raw"]}
    assert items["stemcell formats"].detail == "raw"
    for what in ("policy affinity", "kind server_group"):
        assert not items[what].ok
        assert items[what].remedy
    assert "kind vm" not in items


def test_secrets_appear_in_no_log_and_no_error(foreign: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    cpi = foreign(
        """\
        print("stderr: hunter22", file=sys.stderr)
        if request["method"] == "info":
            say({"api_version": 2, "stemcell_formats": []}, log="log: hunter22")
            sys.exit()
        fail("Bosh::Clouds::CloudError", "login hunter22 failed")
        """,
        properties={"vcenter": {"password": "hunter22"}},
    )
    with pytest.raises(CpiError, match="login <redacted> failed") as caught:
        cpi.reboot_vm("i-1")
    assert "hunter22" not in repr(caught.value) + json.dumps(caught.value.facts())
    assert caught.value.__context__ is None
    assert "hunter22" not in caplog.text
    assert "abroad: info stderr: stderr: <redacted>" in caplog.text
    assert "abroad: info log: log: <redacted>" in caplog.text
