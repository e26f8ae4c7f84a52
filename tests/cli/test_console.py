"""`coterie console`: nothing listens on TCP until it is asked for, and a link logs in once."""

from __future__ import annotations

import http.client
import os
from pathlib import Path
from urllib.parse import urlsplit

from tests.cli.conftest import Machine
from tests.console.http import Visitor, words


def listeners(pid: int) -> int:
    """Of TCP, of one process, as the kernel lists them."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue
    listed = [Path(f"/proc/{pid}/net/{kind}").read_text() for kind in ("tcp", "tcp6")]
    rows = [line.split() for text in listed for line in text.splitlines()[1:]]
    return sum(1 for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets)


def test_the_local_director_listens_when_it_is_asked_and_its_link_logs_in_once(machine: Machine) -> None:
    machine.furnish()
    pid = machine.run("local", "status", "-o", "json").json["pid"]
    assert listeners(pid) == 0
    link = machine.run("console", "--no-open").out.strip()
    assert listeners(pid) == 1
    where = urlsplit(link)
    assert where.hostname == "127.0.0.1"
    one = Visitor(f"http://{where.netloc}")
    assert one.get("/").status == 303
    assert one.get(f"{where.path}?{where.query}").status == 200
    assert one.get("/").status == 303
    assert one.post(where.path, {"code": where.query.removeprefix("code=")}).status == 200
    assert "admin" in words(one.get("/access").text)
    assert Visitor(one.url).get(f"{where.path}?{where.query}").status == 401
    again = urlsplit(machine.run("console", "-o", "json").json["link"])
    assert (again.netloc, again.query == where.query) == (where.netloc, False)
    assert listeners(pid) == 1


def test_sessions_are_shown_and_ended(machine: Machine) -> None:
    machine.furnish()
    browsers = []
    for _ in range(3):
        where = urlsplit(machine.run("console", "--no-open").out.strip())
        browsers.append(Visitor(f"http://{where.netloc}"))
        assert browsers[-1].post(where.path, {"code": where.query.removeprefix("code=")}).status == 200
    listed = machine.run("console", "sessions", "-o", "json").json["items"]
    shown = machine.run("console", "sessions").out
    assert len(listed) == 3 and all(one["id"] in shown for one in listed)
    user = listed[0]["name"]
    assert user in shown and machine.run("console", "sessions", "--user", "nobody", "-o", "json").json["items"] == []
    assert machine.run("console", "end", listed[0]["id"]).code == 0
    assert [one.get("/access").status for one in browsers] == [303, 200, 200]
    assert "2 sessions" in machine.run("console", "end", "--user", user).err
    assert [one.get("/access").status for one in browsers] == [303, 303, 303]
    assert "0 sessions" in machine.run("console", "end", "--all").err
    assert machine.run("console", "end", listed[0]["id"]).code == 5
    assert machine.run("console", "end").code == machine.run("console", "end", "x", "--all").code == 2


def test_without_a_display_no_text_browser_takes_the_terminal(machine: Machine) -> None:
    machine.furnish()
    program = machine.folder / "bin" / "www-browser"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {machine.folder}/opened\n")
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    machine.env |= {"PATH": path, "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
    done = machine.run("console")
    assert done.out.startswith("http://127.0.0.1:") and "open the link yourself" in done.err
    assert not (machine.folder / "opened").exists()
    machine.env["BROWSER"] = str(program)
    assert machine.run("console").code == 0
    assert (machine.folder / "opened").exists()


def test_the_port_is_no_way_round_the_permissions_of_the_socket(machine: Machine) -> None:
    machine.furnish()
    where = urlsplit(machine.run("console", "--no-open").out.strip())
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    for method, path in (("GET", "/v1/deployments"), ("POST", "/v1/console/links"), ("GET", "/v1/config")):
        connection.request(method, path)
        answer = connection.getresponse()
        assert answer.status == 401, (path, answer.read())
        answer.read()


def test_a_wrong_token_is_refused_at_the_port_and_counted(machine: Machine) -> None:
    machine.furnish()
    where = urlsplit(machine.run("console", "--no-open").out.strip())
    one = Visitor(f"http://{where.netloc}")
    answers = [one.post("/login", {"token": f"cot_aaaaaaaaaaa{n}_x"}) for n in range(10)]
    assert {answer.status for answer in answers} == {401}
    assert not any(answer.cookies for answer in answers)
    assert "bearer token" in words(answers[0].text)
    assert one.post("/login", {"token": "cot_bbbbbbbbbbbb_x"}).status == 429


def test_a_token_of_the_ledger_logs_in_at_the_port_with_its_own_role(machine: Machine) -> None:
    machine.furnish()
    text = machine.run("tokens", "create", "ann", "--role", "viewer").out.strip()
    where = urlsplit(machine.run("console", "--no-open").out.strip())
    one = Visitor(f"http://{where.netloc}").log_in(text)
    assert "viewer" in words(one.get("/access").text)


def test_a_session_of_the_port_ends_with_the_director(machine: Machine) -> None:
    """Open pages ask the port again, whatever process has it by then, and send it their cookie."""
    machine.furnish()
    one = log_in(machine)
    assert one.get("/").status == 200
    assert machine.run("local", "stop").code == 0
    two = log_in(machine)
    two.cookies = one.cookies
    assert two.get("/").status == 303


def log_in(machine: Machine) -> Visitor:
    where = urlsplit(machine.run("console", "--no-open").out.strip())
    one = Visitor(f"http://{where.netloc}")
    assert one.post(where.path, {"code": where.query.removeprefix("code=")}).status == 200
    return one


def test_the_map_is_printed_as_a_picture(machine: Machine) -> None:
    machine.furnish()
    assert machine.run("deploy", "web.yml", "--yes").code == 0
    drawn = machine.run("placement", "map", "web", "-o", "svg").out
    assert drawn.startswith("<?xml") and "web/web/0 (up)" in drawn
    page = machine.run("placement", "map", "-o", "html").out
    assert page.startswith("<!doctype html>") and "no two nodes on one host" in page
    found = machine.run("placement", "map", "-o", "json").json
    assert sum(rack["nodes"] for rack in found["racks"]) == 2 == len(found["nodes"])
    assert machine.run("-o", "json", "placement", "map").json == found
    assert machine.run("-o", "json", "placement", "map", "-o", "svg").out == machine.run("placement", "map").out
    key = next(rack["key"] for rack in found["racks"] if rack["nodes"])
    assert "<svg" in machine.run("placement", "map", "--rack", key).out
    assert machine.run("placement", "map", "--rack", "nowhere").code == 5
