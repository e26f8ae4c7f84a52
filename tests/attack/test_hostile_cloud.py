"""A cloud whose texts are written to take over the terminal that shows them, or the programs that are given them."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any, cast

import pytest

from coterie.cli.frame.session import Session
from coterie.cli.reach import inventory
from coterie.cli.reach.login import Logins
from coterie.cli.show import problem
from coterie.cli.show.paint import Paint
from coterie.cli.show.table import as_json, fields, table
from coterie.cli.watch.lines import line
from coterie.cli.watch.live import Live
from coterie.cli.watch.report import report
from coterie.errors import CoterieError, NotFound
from coterie.settings import load
from coterie.telemetry import log

EVIL = "a\x1b]0;PWNED\x07\x1b[2J\x1b[31mEVIL\x9b2J\r\nerror: forged\u202e\u2066\x00\x7f\u2028b"
AT = "2026-01-01T00:00:00Z"


def require_harmless(shown: str, lines: int) -> None:
    assert "EVIL" in shown
    assert [one for one in shown if (ord(one) < 32 and one != "\n") or 0x7F <= ord(one) < 0xA0] == []
    assert not set(shown) & set("\u202e\u2066\u2028")
    assert len(shown.splitlines()) == lines


@pytest.fixture
def session() -> Session:
    return Session(load({"color": "never"}, {"HOME": "/"}))


def event() -> dict[str, Any]:
    return {"at": AT, "kind": "node.failed", "subject": EVIL, "body": EVIL}


def test_no_view_shows_it_raw(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    paint = Paint("never", sys.stdout)
    failure = {"subject": EVIL, "error": {"what": EVIL, "why": EVIL, "remedy": EVIL, "code": "x"}}
    task = {"id": 1, "kind": "deploy", "deployment": "d", "state": "failed", "created_at": AT, "ended_at": AT}
    views = {
        line(event()): 1,
        table(["a", "b"], [[EVIL, [EVIL]]], paint): 2,
        fields([("a", EVIL), ("b", {"c": EVIL})], paint): 2,
        report({**task, "steps": {"total": 1, "ended": 1}, "report": {"failures": [failure]}}, paint): 8,
        paint.plan(EVIL): 3,
    }
    for text, lines in views.items():
        session.data(text)
        require_harmless(capsys.readouterr().out, lines)


def test_words_and_errors_do_not_either(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    problem.print_problem(CoterieError(EVIL, why=EVIL, remedy=EVIL), as_json=False)
    require_harmless(capsys.readouterr().err, 4)
    session.say(EVIL.replace("\r\n", " ").replace("\u2028", " "))
    require_harmless(capsys.readouterr().err, 1)


def test_json_stays_json(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    session.data(as_json({"a": EVIL}))
    shown = capsys.readouterr().out
    require_harmless(shown, 3)
    assert json.loads(shown) == {"a": EVIL}


def test_in_colours_only_our_own_codes_remain(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(load({"color": "always"}, {"HOME": "/"}))
    session.data(table(["a"], [[EVIL]], session.paint))
    shown = capsys.readouterr().out
    assert shown.startswith("\x1b[1ma\x1b[0m")
    require_harmless(shown.replace("\x1b[1m", "").replace("\x1b[0m", ""), 2)


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_log_shows_it_raw(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    kept = root.handlers[:], root.level
    log.to_terminal(form)
    try:
        logging.getLogger("x").warning("the cloud says %s", EVIL)
    finally:
        root.handlers[:], root.level = kept
    require_harmless(capsys.readouterr().err, 1)


def test_live_rows_do_not_either(capsys: pytest.CaptureFixture[str]) -> None:
    class Api:
        pass

    shown = Live(Api(), 1, no_color=True)  # type: ignore[arg-type]  # it is not called
    shown.event(event())
    require_harmless("".join(capsys.readouterr().err.split("\n")), 1)


ADDRESSES = [
    "10.0.0.1\n  ProxyCommand id",
    "-oProxyCommand=id",
    "{{ lookup('pipe', 'id') }}",
    "$(id)",
    "a b",
    "\x1b[2J",
]


def machine(**more: Any) -> dict[str, Any]:
    names = ("instance_group", "index", "az", "server_group", "host", "deployment")
    known = {
        "name": "vm-1",
        "uuid": "u",
        "cloud": "lab",
        "state": "up",
        "vm_cid": "c",
        "addresses": {"net": "10.0.0.1"},
    }
    return {**dict.fromkeys(names), **known, **more}


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_of_a_cloud_becomes_an_option_a_setting_or_a_template(address: str) -> None:
    assert Logins(cast(Any, None)).find_all([machine(addresses={"net": address})]) == []
    with pytest.raises(NotFound, match="no address to log in to"):
        Logins(cast(Any, None)).find(machine(addresses={"net": address}))


@pytest.mark.parametrize("address", ["10.0.0.1", "2001:db8::1", "::1", "vm-1.lab.example"])
def test_what_ansible_would_evaluate_is_left_out(address: str) -> None:
    evil = "{{ lookup('pipe', 'id') }}"
    odd = machine(addresses={"net": address, "other": evil}, host=evil, vm_cid="{% x %}", az="z1")
    (login,) = Logins(cast(Any, None)).find_all([odd])
    variables = inventory._variables(login)
    assert (variables["ansible_host"], variables["coterie_az"]) == (address, "z1")
    assert "{" not in str(list(variables.values()))
