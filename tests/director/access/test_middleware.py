"""The access middleware: all but /livez and /readyz takes a token that is right, not expired and not revoked."""

from __future__ import annotations

import pytest

from coterie.director.app import build
from coterie.director.context import AppContext
from coterie.director.services.readiness import Readiness
from coterie.ledger.rows import tokens
from coterie.ledger.tables import events
from coterie.ledger.tables import tokens as table
from tests.director.access.conftest import Make
from tests.director.asgi import Client

WRONG = (
    "s3cret",
    "Bearer",
    "Bearer wrong",
    "Basic s3cret",
    "Bearer cot_x_y",
    "Bearer cot__",
    "Bearer é",
    "Bearer a.b.c",
)
PATHS = ("/v1/nodes", "/metrics", "/openapi.json", "/v1/nothing", "/v1/whoami")


def test_everything_else_requires_a_token(locked: Client) -> None:
    tried = [(path, None) for path in PATHS] + [("/v1/nodes", header) for header in WRONG]
    for path, header in tried:
        reply = locked.get(path, **({"authorization": header} if header else {}))
        assert (reply.status, reply.json["code"]) == (401, "unauthenticated"), (path, header)
        assert reply.headers["www-authenticate"] == "Bearer"
        assert "coterie tokens create" in reply.json["remedy"]


def test_load_balancers_need_no_token_and_learn_nothing(locked: Client, context: AppContext) -> None:
    assert locked.get("/livez").text == locked.get("/readyz").text == "ok\n"
    context.ending = True
    assert (locked.get("/readyz").status, locked.get("/readyz").text) == (503, "not ready\n")
    context.ending, context.readiness = False, Readiness()
    with context.ledger.write() as tx:
        tx.exec_driver_sql("DELETE FROM directors")
    assert (locked.get("/readyz").status, locked.get("/readyz").text) == (503, "not ready\n")


def test_the_socket_s_owner_is_an_admin(client: Client) -> None:
    me = client.get("/v1/whoami").json
    assert (me["role"], me["how"], me["teams"]) == ("admin", "socket", None)
    assert me["name"].startswith("local:")


def test_a_token_is_valid_until_it_is_revoked(person: Make) -> None:
    admin, other = person("admin"), person("viewer", name="ci")
    assert other.get("/v1/whoami").json["name"] == "ci"
    assert admin.send("DELETE", f"/v1/tokens/{other.id}").status == 204
    assert other.get("/v1/whoami").status == 401
    listed = {one["id"]: one["state"] for one in admin.get("/v1/tokens").json["items"]}
    assert listed == {admin.id: "valid", other.id: "revoked"}


def test_a_token_expires(person: Make, context: AppContext) -> None:
    admin, other = person("admin"), person("operator")
    with context.ledger.write() as tx:
        tx.execute(table.update().where(table.c.id == other.id).values(expires_at=1.0))
    assert other.get("/v1/nodes").status == 401
    assert admin.get(f"/v1/tokens/{other.id}").json["state"] == "expired"


def test_a_token_is_shown_once_and_only_its_hash_is_kept(person: Make, context: AppContext) -> None:
    admin = person("admin")
    made = admin.send("POST", "/v1/tokens", {"name": "ci", "role": "operator", "teams": ["b", "a"], "days": 7})
    assert made.status == 201
    text = made.json["text"]
    secret = text.split("_", 2)[2]
    assert len(secret) >= 43
    assert (made.json["role"], made.json["teams"], made.json["created_by"]) == ("operator", ["a", "b"], "admin")
    for path in (f"/v1/tokens/{made.json['id']}", "/v1/tokens", "/v1/events"):
        assert secret not in admin.get(path).text
    with context.ledger.read() as tx:
        kept = [dict(row._mapping) for row in tx.execute(table.select())]
        said = [str(row) for row in tx.execute(events.select())]
        assert tokens.valid(tx, made.json["id"]) is not None
    assert secret not in str(kept) + str(said)


@pytest.mark.parametrize("end", [-1, None])
def test_a_token_with_another_secret_is_refused(person: Make, locked: Client, end: int | None) -> None:
    admin = person("admin")
    bent = admin.token[:-1] if end else admin.token + "x"
    assert locked.get("/v1/nodes", authorization=f"Bearer {bent}").status == 401


def test_the_director_s_own_token_is_an_admin_s(context: AppContext) -> None:
    context.token = "s3cret"
    client = Client(build(context))
    try:
        me = client.get("/v1/whoami", authorization="bearer  s3cret").json
        assert (me["name"], me["role"]) == ("director-token", "admin")
        refused = client.get("/v1/whoami", authorization="Bearer s3cre")
        assert refused.status == 401
        assert "s3cret" not in refused.text
    finally:
        client.close()


def test_an_unreachable_ledger_does_not_count_as_a_wrong_token(
    person: Make, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.exc import OperationalError

    admin = person("admin")

    def away() -> None:
        raise OperationalError("SELECT", {}, Exception("connection refused"))

    monkeypatch.setattr(context.ledger, "read", away)
    reply = admin.get("/v1/nodes")
    assert (reply.status, reply.json["code"]) == (503, "unreachable")
