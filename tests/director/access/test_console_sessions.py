"""Sessions of the web console in the API: admins list them and end them, and nothing shows what opens one."""

from __future__ import annotations

import pytest

from coterie.director.access.caller import Caller
from coterie.director.console import sessions
from coterie.director.context import AppContext
from coterie.ledger.tables import events
from tests.director.access.conftest import Make

ANN = Caller("ann", "operator", "oidc", frozenset({"red"}), "https://issuer#1")
BOB = Caller("bob", "viewer", "oidc", None, "https://issuer#2")
PATH = "/v1/console/sessions"


def begin(context: AppContext, caller: Caller) -> str:
    return sessions.begin(context, caller, 1.0)[0]


def test_sessions_are_listed_without_what_opens_them(person: Make, context: AppContext) -> None:
    secrets = [begin(context, one) for one in (ANN, BOB)]
    sessions.make_link_code(context, ANN)
    reply = person("admin").get(PATH)
    ann, bob = reply.json["items"]
    assert (ann["name"], ann["role"], ann["teams"], ann["how"]) == ("ann", "operator", ["red"], "oidc")
    assert (bob["name"], bob["teams"], bob["state"]) == ("bob", None, "valid")
    assert bob["created_at"] < bob["expires_at"]
    assert not [one for one in secrets if one in reply.text or sessions._hash(one) in reply.text]
    assert "proof" not in reply.text
    first = person("admin").get(f"{PATH}?limit=1").json
    second = person("admin").get(f"{PATH}?limit=1&cursor={first['next']}").json
    assert [*first["items"], *second["items"]] == [ann, bob] and second["next"] is None
    assert person("admin").get(f"{PATH}?name=bob").json["items"] == [bob]


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_only_admins_see_or_end_them(person: Make, context: AppContext, role: str) -> None:
    secret = begin(context, ANN)
    (listed,) = person("admin").get(PATH).json["items"]
    other = person(role)
    for method, path in (("GET", PATH), ("DELETE", PATH), ("DELETE", f"{PATH}/{listed['id']}")):
        assert other.send(method, path).status == 403, (method, path)
    assert sessions.caller_of(context, secret) == ANN


def test_one_is_ended_and_the_record_says_by_whom(person: Make, context: AppContext) -> None:
    admin = person("admin", name="root")
    ended = begin(context, ANN)
    (first,) = [one["id"] for one in admin.get(PATH).json["items"]]
    kept = begin(context, ANN)
    assert admin.send("DELETE", f"{PATH}/{first}").status == 204
    assert (sessions.caller_of(context, ended), sessions.caller_of(context, kept)) == (None, ANN)
    again = admin.send("DELETE", f"{PATH}/{first}")
    assert again.status == 404 and "coterie console sessions" in again.json["remedy"]
    with context.ledger.read() as tx:
        audit = [row.body for row in tx.execute(events.select()) if row.subject == f"{PATH}/{first}"]
    assert audit == ["root: DELETE done (204)", "root: DELETE refused (404)"]


def test_all_of_a_user_are_ended_with_the_links_that_log_in_again(person: Make, context: AppContext) -> None:
    ann, bob = [begin(context, ANN), begin(context, ANN)], begin(context, BOB)
    code, other = sessions.make_link_code(context, ANN), sessions.make_link_code(context, BOB)
    assert person("admin").send("DELETE", f"{PATH}?name=ann").json == {"ended": 2}
    assert [sessions.caller_of(context, one) for one in (*ann, bob)] == [None, None, BOB]
    assert (sessions.link_caller(context, code), sessions.link_caller(context, other)) == (None, BOB)
    assert person("admin").send("DELETE", PATH).json == {"ended": 1}
    assert sessions.caller_of(context, bob) is None


def test_a_session_whose_token_was_revoked_is_over(person: Make, context: AppContext) -> None:
    admin, other = person("admin"), person("viewer", name="ci")
    begin(context, Caller("ci", "viewer", "token", None, other.id))
    begin(context, Caller("director", "admin", "token"))
    assert admin.send("DELETE", f"/v1/tokens/{other.id}").status == 204
    assert {one["name"]: one["state"] for one in admin.get(PATH).json["items"]} == {"ci": "over", "director": "valid"}
