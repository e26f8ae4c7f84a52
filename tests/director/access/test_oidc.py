"""JSON web tokens of an issuer on this machine: every way in which one can be wrong, new keys, roles and teams."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, OctKey, RSAKey

from coterie.director.access.bootstrap import read_issuer
from coterie.director.access.jwks import Jwks
from coterie.director.access.oidc import Oidc
from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.errors import Forbidden, Unreachable, UsageError
from coterie.settings import load
from tests.director.asgi import Client


class Issuer:
    """Serves its keys, and counts the requests."""

    def __init__(self) -> None:
        self.keys = [ECKey.generate_key("P-256", {"kid": "k1"})]
        self.asked: list[str] = []
        self.jwks_uri: str | None = None
        self.redirect: str | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def document(self, path: str) -> Any:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.jwks_uri or f"{self.url}/keys"}
        return KeySet(self.keys).as_dict(private=False)

    def token(self, key: Any = None, alg: str = "ES256", **claims: Any) -> str:
        chosen = key or self.keys[0]
        usual = {"iss": self.url, "aud": "coterie", "sub": "u1", "exp": int(time.time()) + 600, "groups": ["ops"]}
        given = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": chosen.kid}, given, chosen, algorithms=[alg])


def _handler(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            self.send_response(302 if issuer.redirect else 200)
            if issuer.redirect:
                self.send_header("Location", issuer.redirect)
            self.end_headers()
            self.wfile.write(json.dumps(issuer.document(self.path)).encode())

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.close()


def trusting(issuer: Issuer, **more: str) -> Oidc:
    roles = "ops=operator,boss=admin,all=viewer"
    env = {"HOME": "/", "COTERIE_OIDC_ISSUER": issuer.url, "COTERIE_OIDC_ROLES": roles}
    made = read_issuer(load({}, {**env, **{f"COTERIE_OIDC_{name.upper()}": value for name, value in more.items()}}))
    assert made is not None
    return made


def test_a_good_token_names_its_caller(issuer: Issuer) -> None:
    oidc = trusting(issuer)
    caller = oidc.caller_of(issuer.token(preferred_username="ann"))
    assert caller is not None
    assert (caller.name, caller.role, caller.teams, caller.detail) == ("oidc:u1", "operator", None, "ann")
    assert oidc.caller_of(issuer.token(aud=["x", "coterie"], groups=["all", "boss", "ops"])).role == "admin"  # type: ignore[union-attr]  # a failure is a failure
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"], "the keys are kept"


NOW, DAY = int(time.time()), 86400


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW - DAY},
        {"exp": None},
        {"nbf": NOW + DAY},
        {"iss": "http://127.0.0.1:1"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert trusting(issuer).caller_of(issuer.token(**claims)) is None


def test_a_token_with_another_signature_is_refused(issuer: Issuer) -> None:
    oidc = trusting(issuer)
    good = issuer.token()
    head, body, signature = good.split(".")
    public = json.dumps(issuer.keys[0].as_dict(private=False))
    with_public_as_secret = OctKey.import_key(public, {"kid": "k1"})
    unsigned = jwt.encode({"alg": "none"}, {"sub": "u1"}, OctKey.generate_key(256), algorithms=["none"])
    bad = [
        unsigned,
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        issuer.token(with_public_as_secret, "HS256"),
        issuer.token(ECKey.generate_key("P-256", {"kid": "k1"})),
        issuer.token(RSAKey.generate_key(2048, {"kid": "k1"}), "RS256"),
        "a.b.c",
        "..",
        f"{head}.{body}.{'A' * 20000}",
    ]
    assert [oidc.caller_of(one) for one in bad] == [None] * len(bad)
    assert trusting(issuer, algorithms="RS256").caller_of(good) is None


def test_algorithms_with_a_shared_secret_cannot_be_configured() -> None:
    for wrong in ("HS256", "none", "RS256,HS256"):
        with pytest.raises(UsageError, match="oidc_algorithms"):
            load({}, {"HOME": "/", "COTERIE_OIDC_ALGORITHMS": wrong})


def test_a_new_key_is_fetched_when_it_is_first_named_and_not_more_often_than_that(issuer: Issuer) -> None:
    clock = [0.0]
    keys = Jwks(issuer.url, clock=lambda: clock[0])
    assert [key.kid for key in keys("k1").keys] == ["k1"]
    issuer.keys.insert(0, ECKey.generate_key("P-256", {"kid": "k2"}))
    keys("k2")
    assert issuer.asked.count("/keys") == 1, "an unknown key may be a made-up one: there is a rest between fetches"
    clock[0] += 11
    assert [key.kid for key in keys("k2").keys] == ["k2", "k1"]
    del issuer.keys[1]  # rotated away
    clock[0] += 601
    assert [key.kid for key in keys("k2").keys] == ["k2"]
    for n in range(50):
        keys(f"made-up{n}")
    assert issuer.asked.count("/keys") == 3


def test_keys_come_from_the_issuer_and_from_nowhere_else(issuer: Issuer) -> None:
    other = Issuer()
    try:
        issuer.jwks_uri = f"{other.url}/keys"
        with pytest.raises(Unreachable, match="does not give its keys"):
            Jwks(issuer.url)("k1")
        issuer.jwks_uri, issuer.redirect = None, f"{other.url}/keys"
        with pytest.raises(Unreachable):
            Jwks(issuer.url)("k1")
        assert other.asked == []
    finally:
        other.close()
    with pytest.raises(UsageError, match="oidc_issuer"):
        Jwks("http://issuer.example")


def test_cached_keys_stay_valid_while_the_issuer_is_silent(issuer: Issuer) -> None:
    clock = [0.0]
    keys = Jwks(issuer.url, clock=lambda: clock[0])
    keys("k1")
    issuer.close()
    clock[0] += 1000
    assert [key.kid for key in keys("k1").keys] == ["k1"]


def test_an_issuer_that_never_answered_is_not_called_again_at_once(issuer: Issuer) -> None:
    clock = [0.0]
    good = issuer.document

    def slow(path: str) -> Any:
        clock[0] += 60  # waiting for the answer is no rest
        return good(path)

    issuer.document, issuer.redirect = slow, "/elsewhere"  # type: ignore[method-assign]  # what it does here
    keys = Jwks(issuer.url, clock=lambda: clock[0])
    for n in range(20):
        with pytest.raises(Unreachable):
            keys(f"made-up{n}")
    assert len(issuer.asked) == 1
    issuer.redirect = None
    clock[0] += 3
    assert [key.kid for key in keys("k1").keys] == ["k1"]


def test_an_issuer_that_is_silent_holds_one_thread_and_no_more(issuer: Issuer) -> None:
    clock, asked, answer, good = [0.0], threading.Event(), threading.Event(), issuer.document
    issuer.redirect = "/elsewhere"
    keys = Jwks(issuer.url, clock=lambda: clock[0])
    with pytest.raises(Unreachable):
        keys("k1")

    def held(path: str) -> Any:
        asked.set()
        answer.wait(60)
        return good(path)

    issuer.document, issuer.redirect = held, None  # type: ignore[method-assign]  # what it does here
    clock[0] += 3
    first = threading.Thread(target=keys, args=("k1",))
    first.start()
    assert asked.wait(60)
    with pytest.raises(Unreachable):
        keys("k1")
    assert first.is_alive(), "the second did not wait for the first"
    answer.set()
    first.join()
    assert [key.kid for key in keys("k1").keys] == ["k1"]


def test_groups_give_role_and_teams(issuer: Issuer) -> None:
    oidc = trusting(issuer, teams="red-devs=red,blue-devs=blue")
    caller = oidc.caller_of(issuer.token(groups=["ops", "red-devs", "unknown"]))
    assert caller is not None and caller.teams == {"red"}
    teamless = oidc.caller_of(issuer.token(groups="ops"))
    assert teamless is not None and teamless.teams == frozenset(), "a member of no team sees no team's deployments"
    for groups in ([], None, ["unknown"], 7, [{"ops": 1}]):
        with pytest.raises(Forbidden, match="no role"):
            oidc.caller_of(issuer.token(groups=groups))


def test_a_json_web_token_gives_access_to_the_api(issuer: Issuer, context: AppContext) -> None:
    context.guarded, context.oidc = True, trusting(issuer)
    client = Client(build(context))
    try:
        me = client.get("/v1/whoami", authorization=f"Bearer {issuer.token()}").json
        assert (me["name"], me["how"], me["role"]) == ("oidc:u1", "oidc", "operator")
        assert client.get("/v1/tokens", authorization=f"Bearer {issuer.token()}").status == 403
        assert client.get("/v1/whoami", authorization=f"Bearer {issuer.token(exp=1)}").status == 401
        assert client.get("/v1/whoami", authorization=f"Bearer {issuer.token(groups=[])}").status == 403
    finally:
        client.close()
