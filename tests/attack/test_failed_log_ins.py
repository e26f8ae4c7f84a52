"""A client with wrong tokens: behind a proxy, against an issuer that hangs, and with tokens that are hard to read."""

from __future__ import annotations

import base64
import socket
import threading
import time
from ipaddress import ip_network

import pytest

from coterie.cli.link.route import route_to
from coterie.director.access.attempts import client_address
from coterie.director.access.bootstrap import read_issuer
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.process import foreground_director
from coterie.director.process.state_folder import StateFolder
from coterie.errors import UsageError
from coterie.settings import load
from tests.director.access.conftest import Make
from tests.director.access.test_oidc import Issuer
from tests.director.asgi import Client


def test_a_valid_token_that_was_never_seen_passes_where_others_have_failed(person: Make, locked: Client) -> None:
    unseen = person("viewer")
    for n in range(12):
        locked.get("/v1/info", authorization=f"Bearer cot_aaaaaaaaaa{n:02}_x")
    assert locked.get("/v1/info", authorization="Bearer cot_bbbbbbbbbbbb_x").status == 429
    assert unseen.get("/v1/info").status == 200


def test_secrets_of_one_token_cannot_be_tried_without_end(person: Make, locked: Client) -> None:
    known = person("viewer")
    answers = [locked.get("/v1/info", authorization=f"Bearer cot_{known.id}_{n}").status for n in range(15)]
    assert answers == [401] * 10 + [429] * 5


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("198.51.100.7, 192.0.2.1", "192.0.2.1"),  # the client itself wrote the first one
        ("192.0.2.1, 10.0.0.3", "192.0.2.1"),
        ("192.0.2.1, rubbish", "10.0.0.2"),
        ("", "10.0.0.2"),
    ],
)
def test_a_forwarded_address_is_taken_from_trusted_proxies_only(forwarded: str, expected: str) -> None:
    proxies = (ip_network("10.0.0.0/8"),)
    assert client_address("10.0.0.2", forwarded, proxies) == expected
    assert client_address("192.0.2.9", forwarded, proxies) == "192.0.2.9"


def test_an_issuer_that_hangs_keeps_no_api_token_waiting(
    person: Make, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=200) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        env = {"HOME": "/", "COTERIE_OIDC_ISSUER": url}
        context.oidc = read_issuer(load({"state": str(context.state_folder.path)}, env))
        monkeypatch.setattr("coterie.director.access.jwks._TIMEOUT_S", 60.0)
        client, viewer = Client(build(context)), person("viewer")
        head = base64.urlsafe_b64encode(b'{"alg": "ES256", "kid": "x"}').decode().rstrip("=")
        forged = [
            threading.Thread(target=client.get, args=("/v1/info",), kwargs={"authorization": f"Bearer {head}.e{n}.x"})
            for n in range(60)
        ]
        for one in forged:
            one.start()
        time.sleep(0.3)
        assert client.get("/v1/info", authorization=f"Bearer {viewer.token}").status == 200
        assert any(one.is_alive() for one in forged)
        silent.close()
        for one in forged:
            one.join()
        client.close()


def test_a_token_that_is_hard_to_read_is_a_failed_log_in_like_others(context: AppContext) -> None:
    issuer = Issuer()
    context.guarded = True
    env = {"HOME": "/", "COTERIE_OIDC_ISSUER": issuer.url}
    context.oidc = read_issuer(load({"state": str(context.state_folder.path)}, env))
    client = Client(build(context))
    deep = base64.urlsafe_b64encode(b'{"a":' * 2000 + b"1" + b"}" * 2000).decode().rstrip("=")
    answers = [client.get("/v1/info", authorization=f"Bearer {deep}.e30.{n}").status for n in range(12)]
    assert answers == [401] * 10 + [429] * 2
    assert context.oidc.caller_of(issuer.token(sub="a\x1b[2Jb", groups=[])) is None
    client.close()
    issuer.close()


def test_no_director_listens_for_others_without_tls(context: AppContext) -> None:
    def start(**more: str) -> None:
        settings = load({"state": str(context.state_folder.path), "listen": "0.0.0.0:0"}, {"HOME": "/", **more})
        foreground_director._service(StateFolder(context.state_folder.path), settings)

    with pytest.raises(UsageError, match="unencrypted"):
        start()
    start(COTERIE_PLAIN_HTTP="true")


@pytest.mark.parametrize("host", ["192.0.2.1", "127.evil.example", "director.example"])
def test_no_command_sends_its_token_in_plain_text(host: str) -> None:
    def route(url: str, **more: str) -> object:
        settings = load({"director": url}, {"HOME": "/", "COTERIE_TOKEN": "cot_x_y", **more})
        return route_to(settings, foreground=False, say=lambda _: None)

    with pytest.raises(UsageError, match="unencrypted"):
        route(f"http://{host}:8443")
    for url in (f"https://{host}:8443", "http://127.0.0.2:8443", "http://[::1]:8443"):
        route(url)
    route(f"http://{host}:8443", COTERIE_PLAIN_HTTP="true")
