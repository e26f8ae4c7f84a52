"""Logging in at an issuer: authorization code with PKCE, checked against what the browser was sent away with."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import build_opener

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet
from playwright.sync_api import Browser
from starlette.requests import Request

from coterie.director.access.attempts import Attempts
from coterie.director.console import sessions
from coterie.director.console.oidc_login import OidcLogin
from coterie.errors import Unreachable
from tests.console.http import Answer, Visitor, words
from tests.console.world import World, world

CLIENT, SECRET = "console-of-coterie", "the-secret-of-the-client"


class Issuer:
    """As RFC 6749 and 7636 want one: a code works once, for the client, address and verifier that it was given to."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256", {"kid": "k1"})
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {}
        self.refused: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://localhost:{self._server.server_port}"  # another site than 127.0.0.1, for browsers
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def log_in(self, location: str) -> str:
        """What its page does when the user has logged in: the address that it sends the browser back to."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert asked["response_type"] == "code" and asked["code_challenge_method"] == "S256"
        assert asked["client_id"] == CLIENT and "openid" in asked["scope"].split()
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        back = urlsplit(asked["redirect_uri"])
        return f"{back.path}?{urlencode({'code': code, 'state': asked['state']})}"

    def redeem(self, form: dict[str, str]) -> dict[str, str] | None:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        fits = asked is not None and (
            (form["client_id"], form["client_secret"], form["redirect_uri"], form["grant_type"])
            == (CLIENT, SECRET, asked["redirect_uri"], "authorization_code")
        )
        if asked is None or not fits or asked["code_challenge"] != challenge:
            self.refused.append(form.get("code", ""))
            return None
        usual = {"iss": self.url, "aud": CLIENT, "sub": "u1", "exp": int(time.time()) + 300, "groups": ["ops"]}
        claims = {**usual, "nonce": asked["nonce"], **self.claims}
        return {"id_token": jwt.encode({"alg": "ES256", "kid": "k1"}, claims, self.key, algorithms=["ES256"])}


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/authorize?"):  # its user is logged in already
                back = urlsplit(parse_qs(urlsplit(self.path).query)["redirect_uri"][0])
                self.send_response(302)
                self.send_header("Location", f"{back.scheme}://{back.netloc}{issuer.log_in(self.path)}")
                self.end_headers()
                return
            documents = {
                "/.well-known/openid-configuration": {
                    "issuer": issuer.url,
                    "jwks_uri": f"{issuer.url}/keys",
                    "authorization_endpoint": f"{issuer.url}/authorize",
                    "token_endpoint": f"{issuer.url}/token",
                },
                "/keys": KeySet([issuer.key]).as_dict(private=False),
            }
            self._answer(200, documents[self.path])

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["content-length"])).decode()
            answer = issuer.redeem({name: values[0] for name, values in parse_qs(raw).items()})
            self._answer(200 if answer else 400, answer or {"error": "invalid_grant"})

        def _answer(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silent."""

    return Handler


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


@pytest.fixture(scope="module")
def there(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {
        "COTERIE_OIDC_ISSUER": issuer.url,
        "COTERIE_OIDC_CLIENT_ID": CLIENT,
        "COTERIE_OIDC_CLIENT_SECRET": SECRET,
        "COTERIE_OIDC_ROLES": "ops=operator",
        "COTERIE_OIDC_TEAMS": "ops=red",
    }
    with world(tmp_path_factory.mktemp("oidc"), config="", **settings) as found:
        yield found


@pytest.fixture(autouse=True)
def fresh(there: World, issuer: Issuer) -> None:
    issuer.claims, issuer.codes, issuer.refused = {}, {}, []
    there.context.attempts = Attempts()


def begin(browser: Visitor) -> str:
    """Where the browser is sent to."""
    answer = browser.get("/login/oidc?next=/tasks")
    assert answer.status == 303
    (cookie,) = answer.cookies
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/login/oidc"))
    return answer.headers["location"]


def end(browser: Visitor, path: str) -> Answer:
    return browser.get(path, sec_fetch_site="cross-site")


def test_the_login_page_offers_it(there: World) -> None:
    assert "/login/oidc?next=" in Visitor(there.url).get("/login").text


def test_a_user_of_the_issuer_logs_in_with_the_role_of_the_group(there: World, issuer: Issuer) -> None:
    browser = Visitor(there.url)
    answer = end(browser, issuer.log_in(begin(browser)))
    assert answer.status == 200 and 'content="0;url=/tasks"' in answer.text
    assert any(
        one.startswith(sessions.cookie_name(there.context.identity)) and "SameSite=strict" in one
        for one in answer.cookies
    )
    said = words(browser.get("/access").text)
    assert "oidc:u1" in said and "operator" in said and "red" in said


def test_a_browser_comes_back_from_the_issuer_logged_in(there: World, issuer: Issuer, browser: Browser) -> None:
    """The issuer is another site: the browser holds strict cookies back on its way."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{there.url}/tasks")
    page.get_by_role("link", name="Log in with your organisation").click()
    page.wait_for_url(f"{there.url}/tasks")
    assert page.locator(".me summary").inner_text() == "oidc:u1"
    page.goto(f"{issuer.url}/keys")  # a link there leads to a page of ours
    page.evaluate("(target) => { location.href = target; }", f"{there.url}/events")
    page.wait_for_url(f"{there.url}/events")
    assert page.locator("h1").inner_text() == "Events"
    context.close()


def test_the_session_outlives_the_identity_token(there: World, issuer: Issuer) -> None:
    leeway, spent = 30, int(time.time()) - 20
    issuer.claims = {"exp": spent}
    browser = Visitor(there.url)
    assert end(browser, issuer.log_in(begin(browser))).status == 200
    time.sleep(max(0.0, spent + leeway + 1.5 - time.time()))
    assert browser.get("/tasks").status == 200


def test_a_code_of_another_browser_is_refused(there: World, issuer: Issuer) -> None:
    """Else a link would log its reader in as another user."""
    attacker, victim = Visitor(there.url), Visitor(there.url)
    path = issuer.log_in(begin(attacker))
    assert end(victim, path).status == 403
    begin(victim)
    assert end(victim, path).status == 403
    assert victim.get("/tasks").status == 303


def test_a_code_works_once(there: World, issuer: Issuer) -> None:
    browser = Visitor(there.url)
    path = issuer.log_in(begin(browser))
    kept = dict(browser.cookies)
    assert end(browser, path).status == 200
    browser.cookies = kept
    assert end(browser, path).status == 403
    assert issuer.refused


WRONG: tuple[dict[str, Any], ...] = (
    {"aud": "coterie-of-others"},
    {"iss": "https://evil.example"},
    {"nonce": "another"},
    {"groups": ["none"]},
    {"exp": 1},
    {"sub": None},
)


@pytest.mark.parametrize("claims", WRONG)
def test_a_wrong_identity_token_is_refused(there: World, issuer: Issuer, claims: dict[str, Any]) -> None:
    issuer.claims = claims
    browser = Visitor(there.url)
    answer = end(browser, issuer.log_in(begin(browser)))
    assert answer.status == 403 and sessions.cookie_name(there.context.identity) not in browser.cookies


def test_a_token_that_another_key_signed_is_refused(there: World, issuer: Issuer) -> None:
    own, issuer.key = issuer.key, ECKey.generate_key("P-256", {"kid": "k1"})
    try:
        there.context.oidc._keys("k1")  # type: ignore[union-attr] # the Director has read the key before
        browser = Visitor(there.url)
        assert end(browser, issuer.log_in(begin(browser))).status == 403
    finally:
        issuer.key = own


def test_what_the_issuer_refuses_is_said(there: World, issuer: Issuer) -> None:
    browser = Visitor(there.url)
    state = parse_qs(urlsplit(begin(browser)).query)["state"][0]
    answer = end(browser, f"/login/oidc/callback?{urlencode({'error': 'access_denied', 'state': state})}")
    assert answer.status == 403 and "did not log you in" in words(answer.text)


def test_made_up_answers_of_the_issuer_are_counted(there: World, issuer: Issuer) -> None:
    """Each has the Director send its client secret to the issuer."""
    browser = Visitor(there.url)
    path = f"/login/oidc/callback?{urlencode({'code': 'x', 'state': 's'})}"
    mine = base64.urlsafe_b64encode(json.dumps(["s", "v", "n", "/"]).encode()).decode()
    found = [browser.get(path, cookie=f"coterie_oidc={mine}").status for _ in range(12)]
    assert found == [403] * 10 + [429] * 2
    assert len(issuer.refused) == 10


def test_an_issuer_that_hangs_keeps_nobody_else_waiting(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()

    def hang(*_: object) -> None:
        released.wait(60)
        raise Unreachable("the issuer does not answer")

    monkeypatch.setattr(OidcLogin, "redirect", hang)
    waiting = [threading.Thread(target=Visitor(there.url).get, args=("/login/oidc",)) for _ in range(45)]
    other = threading.Thread(target=Visitor(there.url).log_in, args=(there.token("viewer"),))
    for one in waiting:
        one.start()
    time.sleep(1.0)
    other.start()
    other.join(20)
    was_answered = not other.is_alive()
    released.set()
    for one in (*waiting, other):
        one.join(60)
    assert was_answered


def test_an_issuer_that_does_not_answer_is_left_alone_for_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    login = OidcLogin(url, CLIENT, None, "openid", build_opener())
    asked: list[str] = []
    monkey = login.opener.open
    login.opener.open = lambda request, **more: asked.append(request.full_url) or monkey(request, **more)  # type: ignore
    for _ in range(3):
        with pytest.raises(Unreachable):
            login.redirect(Request({"type": "http", "path": "/", "headers": [(b"host", b"here")]}), "/")
    assert len(asked) == 1


def test_without_a_client_there_is_no_such_login(tmp_path: Path) -> None:
    with world(tmp_path, config="") as plain:
        browser = Visitor(plain.url)
        assert "/login/oidc" not in browser.get("/login").text
        assert browser.get("/login/oidc").status == 404
        assert browser.get("/login/oidc/callback?code=1&state=2").status == 404
