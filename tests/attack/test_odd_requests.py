"""Requests and surroundings that are odd on purpose: each was a failure inside, or did more than it should."""

from __future__ import annotations

import http.client
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie import client as coterie_client
from coterie.client import ApiProblem
from coterie.director.context import AppContext
from coterie.director.services.scheduled_cleanup import notify_hook
from coterie.errors import CoterieError
from coterie.requests import start
from tests.director.asgi import Client

CTL = Path(__file__).parents[2] / "deploy/bosh-release/jobs/coterie_cpi/templates/ctl.erb"


class Redirecting(http.server.ThreadingHTTPServer):
    """Answers everything with a redirection to itself."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server_port}"

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.seen.append(self.path)
                self.send_response(302)
                self.send_header("Location", f"{server.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                """Nothing."""

        return Handler


@pytest.fixture
def redirecting() -> Iterator[Redirecting]:
    made = Redirecting()
    threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_cloud_with_a_bad_name_is_refused_with_its_mistake(client: Client, context: AppContext) -> None:
    text = "clouds: [{name: lab, driver: sandbox, properties: {}}]\nazs: [{name: z1, cloud: lab}]\n"
    start.set_cloud_config(context.ledger, text, "cloud-config")
    reply = client.send("POST", "/v1/clouds", {"name": "uq--d@0U", "driver": "cloudstack"})
    assert (reply.status, reply.json["code"]) == (422, "invalid_document"), reply.text
    assert "uq--d@0U" in reply.text


def test_two_ways_to_give_a_length_are_refused(client: Client) -> None:
    both = {"content-length": "2", "transfer-encoding": "chunked", "content-type": "application/json"}
    refused = client.send("POST", "/v1/plans", b"{}", both)
    assert (refused.status, refused.json["code"]) == (400, "bad_request")
    assert refused.headers["connection"] == "close"


def test_a_webhook_is_not_led_elsewhere(redirecting: Redirecting) -> None:
    with pytest.raises(CoterieError, match="webhook"):
        notify_hook("webhook", f"{redirecting.url}/hook", {})
    assert redirecting.seen == ["/hook"]


def test_a_command_is_not_led_elsewhere(redirecting: Redirecting) -> None:
    with pytest.raises(ApiProblem, match="302"):
        coterie_client.Client(redirecting.url, token="cot_x_y").director.info()
    assert redirecting.seen == ["/v1/info"]


def test_the_command_of_a_cleanup_does_not_get_our_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTERIE_TOKEN", "CANARY")
    notify_hook("command", f"sh -c 'env >{tmp_path}/env'", {})
    assert "CANARY" not in (tmp_path / "env").read_text()
    assert f"PATH={os.environ['PATH']}" in (tmp_path / "env").read_text()


@pytest.mark.parametrize("headers", [{"Content-Length": "²"}, {"Content-Length": "2", "Transfer-Encoding": "chunked"}])
def test_our_small_servers_want_one_plain_length(tmp_path: Path, headers: dict[str, str]) -> None:
    from coterie.stemcell.server import PublishingServer
    from coterie.stemcell.shelf import Shelf

    server = PublishingServer(("127.0.0.1", 0), Shelf(tmp_path, 60), "http://x", "u:p")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    link = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    link.putrequest("PUT", "/images/x", skip_accept_encoding=True)
    for name, value in {**headers, "Authorization": "Basic dTpw"}.items():
        link.putheader(name, value.encode("latin-1"))
    link.endheaders(b"2\r\nab\r\n0\r\n\r\n")
    assert link.getresponse().status == 411
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("pid", ["1", "-1", "0", "1 2", "x", ""])
def test_root_signals_nothing_that_another_user_wrote_down(tmp_path: Path, pid: str) -> None:
    """`setpriv` is replaced by a program that records what runs as vcap; `kill` by root itself would be seen."""
    (tmp_path / "cpi.pid").write_text(pid)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "setpriv").write_text(
        f'#!/bin/sh\nshift 3; echo "$1" >>{tmp_path}/as_vcap; [ "$1" = kill ] || exec "$@"; exit 1\n'
    )
    (tools / "setpriv").chmod(0o755)
    script = CTL.read_text().replace("run=/var/vcap/sys/run/coterie_cpi", f"run={tmp_path}")
    outside = [line for line in script.splitlines() if "kill " in line and "as_vcap kill " not in line]
    assert outside == []
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", script, "ctl", "stop"], env=env, capture_output=True, text=True, timeout=60)
    signalled = "kill" in (tmp_path / "as_vcap").read_text()
    assert (done.returncode, signalled) == ((0, True) if pid == "1" else (1, False)), done.stderr
