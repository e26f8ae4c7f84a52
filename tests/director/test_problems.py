"""Every error of every route is a problem (RFC 9457) with a code, a remedy and what programs need."""

from __future__ import annotations

from typing import Any

import pytest

from coterie import __version__
from coterie.director.context import AppContext
from coterie.errors import CoterieError
from tests.director.asgi import Client, Reply, openapi_document
from tests.ledger.views import rows

MANIFEST = {"manifest": "name: x\n"}


def check_problem(reply: Reply, status: int, code: str) -> dict[str, Any]:
    assert reply.status == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = reply.json
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:coterie:problem:{code}"
    assert problem["title"] and problem["detail"] and problem["remedy"]
    assert isinstance(problem["retryable"], bool)
    assert {"task_id", "mistakes", "instance"} <= problem.keys()
    return problem


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("GET", "/nothing", None, 404, "not_found"),
        ("GET", "/v1/console/links", None, 405, "method_not_allowed"),
        ("GET", "/v1/deployments/x/manifests", None, 404, "not_found"),
        ("GET", "/v1/deployments/x/manifests/1", None, 404, "not_found"),
        ("GET", "/v1/placement/map?deployment=x", None, 404, "not_found"),
        ("GET", "/v1/placement/map?most=-1", None, 422, "invalid_request"),
        ("POST", "/v1/nodes", {}, 422, "invalid_request"),
        ("POST", "/v1/clouds", {}, 422, "invalid_request"),
        ("PATCH", "/v1/clouds/x", {"conductor_group": "a"}, 404, "not_found"),
        ("GET", "/v1/cloud-config", None, 404, "not_found"),
        ("PUT", "/v1/cloud-config", {"text": "clouds: 3"}, 422, "invalid_document"),
        ("PUT", "/v1/cloud-config", {"txt": ""}, 422, "invalid_request"),
        ("GET", "/v1/clouds/x", None, 404, "not_found"),
        ("POST", "/v1/clouds/x/check", None, 404, "not_found"),
        ("POST", "/v1/plans", {}, 400, "usage"),
        ("POST", "/v1/plans", {"manifest": "a", "delete": True}, 400, "usage"),
        ("POST", "/v1/plans", {"surprise": 1}, 422, "invalid_request"),
        ("POST", "/v1/plans", MANIFEST, 422, "invalid_document"),
        ("GET", "/v1/deployments/x", None, 404, "not_found"),
        ("GET", "/v1/deployments/x/manifest", None, 404, "not_found"),
        ("PUT", "/v1/deployments/x", {}, 422, "invalid_request"),
        ("PUT", "/v1/deployments/x", {**MANIFEST, "cloud_config": "- a"}, 422, "invalid_document"),
        ("DELETE", "/v1/deployments/x", None, 400, "usage"),
        ("GET", "/v1/nodes/x", None, 404, "not_found"),
        ("GET", "/v1/nodes/a/b/0", None, 404, "not_found"),
        ("GET", "/v1/nodes?limit=0", None, 422, "invalid_request"),
        ("GET", "/v1/nodes?cursor=nonsense", None, 400, "usage"),
        ("GET", "/v1/nodes?state=%00", None, 422, "invalid_request"),
        ("GET", "/v1/groups/x", None, 404, "not_found"),
        ("GET", "/v1/disks/x", None, 404, "not_found"),
        ("DELETE", "/v1/disks/x", None, 404, "not_found"),
        ("GET", "/v1/stemcells/a/1", None, 404, "not_found"),
        ("DELETE", "/v1/stemcells/a/1", None, 404, "not_found"),
        ("POST", "/v1/stemcells", {"name": "a"}, 422, "invalid_request"),
        ("GET", "/v1/objects/x", None, 404, "not_found"),
        ("POST", "/v1/objects/x/settle", {"cid": None}, 404, "not_found"),
        ("POST", "/v1/objects/x/settle", {"cid": "a b"}, 422, "invalid_request"),
        ("GET", "/v1/tasks/1", None, 404, "not_found"),
        ("GET", "/v1/tasks/x", None, 422, "invalid_request"),
        ("GET", "/v1/tasks/1/steps", None, 404, "not_found"),
        ("GET", "/v1/tasks/1/events", None, 404, "not_found"),
        ("POST", "/v1/tasks/1/cancel", None, 404, "not_found"),
        ("GET", "/v1/explain/no.such.field", None, 404, "not_found"),
        ("GET", "/v1/events?limit=x", None, 422, "invalid_request"),
        ("GET", "/v1/conductors?limit=-1", None, 422, "invalid_request"),
        ("POST", "/v1/conductors/groups", None, 405, "method_not_allowed"),
        ("POST", "/v1/ring", None, 405, "method_not_allowed"),
        ("GET", "/v1/ring/nodes/x", None, 404, "not_found"),
        ("GET", "/v1/ring/what-if?without=x", None, 404, "not_found"),
        ("GET", "/v1/ring/what-if?with=x", None, 400, "usage"),
        ("PATCH", "/v1/nodes/x", {"conductor_group": "a"}, 404, "not_found"),
        ("PATCH", "/v1/nodes/x", {"conductor_group": "a" * 256}, 422, "invalid_request"),
        ("GET", "/v1/placement?deployment=%00", None, 422, "invalid_request"),
        ("GET", "/v1/targets?port=0", None, 422, "invalid_request"),
        ("POST", "/v1/cleanups", {"names": ["a"]}, 400, "usage"),
        ("POST", "/v1/cleanups/undo", {"names": ["x"]}, 404, "not_found"),
        ("GET", "/v1/cleanups/9", None, 404, "not_found"),
        ("GET", "/v1/cleanups/9/findings", None, 404, "not_found"),
        ("POST", "/v1/cleanups/9/apply", {"plan": "x"}, 404, "not_found"),
        ("GET", "/v1/cleanups/marks?limit=0", None, 422, "invalid_request"),
        ("POST", "/v1/deployments/x/abandon", None, 404, "not_found"),
        ("POST", "/v1/deployments/x/actions", {"action": "stop", "nodes": ["a/0"]}, 404, "not_found"),
        ("POST", "/v1/deployments/x/actions", {"action": "dance", "nodes": ["a/0"]}, 422, "invalid_request"),
        ("POST", "/v1/looks", {"deployment": "x"}, 404, "not_found"),
        ("POST", "/v1/disks/delete", {"disks": ["x"]}, 404, "not_found"),
        ("POST", "/v1/disks/delete", {"disks": []}, 422, "invalid_request"),
        ("GET", "/v1/console/sessions?limit=0", None, 422, "invalid_request"),
        ("DELETE", "/v1/console/sessions/x", None, 404, "not_found"),
        ("GET", "/v1/tokens/x", None, 404, "not_found"),
        ("DELETE", "/v1/tokens/x", None, 404, "not_found"),
        ("POST", "/v1/tokens", {"name": "a", "role": "king"}, 422, "invalid_request"),
        ("POST", "/v1/tokens", {"name": "a", "teams": []}, 422, "invalid_request"),
        ("POST", "/v1/whoami", None, 405, "method_not_allowed"),
        ("POST", "/v1/keys", {"conductor_group": "a", "public": "x"}, 400, "usage"),
        ("POST", "/v1/keys", {"conductor_group": "a b", "public": "x"}, 422, "invalid_request"),
        ("POST", "/v1/keys/0a/retire", {"conductor_group": "a"}, 404, "not_found"),
        ("POST", "/v1/clouds/x/reseal", None, 404, "not_found"),
        ("POST", "/v1/clouds/x/grant", {"user": "u"}, 404, "not_found"),
        ("POST", "/v1/clouds/x/repin", {"identity": "i"}, 404, "not_found"),
        ("POST", "/v1/clouds/x/accept", None, 404, "not_found"),
        ("POST", "/v1/clouds/x/prove", None, 404, "not_found"),
        ("POST", "/v1/recoveries/plan", {"manifest": "name: [x"}, 422, "invalid_document"),
        ("POST", "/v1/recoveries", {"manifest": "name: x"}, 422, "invalid_request"),
        ("POST", "/v1/groups/x/repair", None, 404, "not_found"),
        ("PATCH", "/v1/deployments/x", {"team": "a"}, 404, "not_found"),
        ("PATCH", "/v1/deployments/x", {"team": ""}, 422, "invalid_request"),
        ("DELETE", "/v1/info", None, 405, "method_not_allowed"),
        ("DELETE", "/v1/config", None, 405, "method_not_allowed"),
        ("POST", "/metrics", None, 405, "method_not_allowed"),
    ],
)
def test_each_route_reports_its_errors_as_problems(
    client: Client, method: str, path: str, body: Any, status: int, code: str
) -> None:
    problem = check_problem(client.send(method, path, body), status, code)
    assert problem["instance"] == path.partition("?")[0]


def test_the_table_above_misses_no_route() -> None:
    marker = next(mark for mark in test_each_route_reports_its_errors_as_problems.pytestmark)  # type: ignore[attr-defined]
    tried = {path.partition("?")[0] for _, path, *_ in marker.args[1]}
    known = {path for path in openapi_document()["paths"] if path not in ("/livez", "/readyz")}
    assert {path for path in known if not any(_like(path, one) for one in tried)} == {
        # lists that take only a limit and a cursor, which nodes, events and conductors have shown
        "/v1/deployments",
        "/v1/groups",
        "/v1/disks",
        "/v1/objects",
        "/v1/tasks",
    }


def _like(template: str, path: str) -> bool:
    pattern, given = template.split("/"), path.split("/")
    if template.endswith((":path}", "{which}", "{path}")):
        return given[: len(pattern) - 1] == pattern[:-1] and len(given) >= len(pattern)
    return len(pattern) == len(given) and all(a == b or a.startswith("{") for a, b in zip(pattern, given, strict=True))


def test_all_mistakes_of_a_document_are_reported_with_their_lines(client: Client) -> None:
    text = "clouds:\n- name: lab\n  driver: nowhere\nazs:\n- name: z1\n  cloud: other\n"
    reply = client.send("PUT", "/v1/cloud-config", {"text": text, "file": "my.yml"})
    problem = check_problem(reply, 422, "invalid_document")
    assert {(one["file"], one["line"]) for one in problem["mistakes"]} >= {("my.yml", 3), ("my.yml", 6)}
    assert all(one["remedy"] for one in problem["mistakes"])


def test_mistakes_in_driver_properties_are_reported_before_they_are_sealed(client: Client) -> None:
    text = (
        "clouds:\n- name: lab\n  driver: sandbox\n  properties:\n    settle_s: s3cret\nazs:\n- name: z1\n  cloud: lab\n"
    )
    text += "vm_types:\n- name: small\n  cloud_properties:\n    cpu: two\n    wat: 1\n"
    reply = client.send("PUT", "/v1/cloud-config", {"text": text, "file": "my.yml"})
    problem = check_problem(reply, 422, "invalid_document")
    assert [(one["line"], one["field"]) for one in problem["mistakes"]] == [
        (5, "clouds[lab].properties.settle_s"),
        (12, "vm_types[small].cloud_properties.cpu"),
        (13, "vm_types[small].cloud_properties.wat"),
    ]
    assert "s3cret" not in str(reply.json)
    check_problem(client.send("GET", "/v1/cloud-config"), 404, "not_found")


def test_a_conflict_names_the_task(client: Client, context: AppContext) -> None:
    rows.task(context.ledger, 4, state="done")
    problem = check_problem(client.send("POST", "/v1/tasks/4/cancel"), 409, "conflict")
    assert problem["task_id"] == 4


def test_a_bad_body_is_a_problem_and_not_a_crash(client: Client) -> None:
    headers = {"content-type": "application/json"}
    for raw in (b"{", b"\xff\xfe", b"[" * 100_000, b"null", b'"\\ud800"'):
        reply = client.send("POST", "/v1/plans", raw, headers)
        check_problem(reply, reply.status, reply.json["code"])
        assert reply.status in (400, 422)
    assert client.send("PUT", "/v1/cloud-config", b"{", headers).status == 400
    assert client.send("PUT", "/v1/cloud-config", b"\xff", {"content-type": "text/yaml"}).status == 400
    check_problem(client.send("PUT", "/v1/cloud-config", b"x", {"content-type": "image/png"}), 400, "usage")


def test_an_unexpected_exception_is_a_500_without_internals(
    client: Client, context: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **keywords: object) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr("coterie.director.routes.nodes.nodes.page", broken)
    reply = client.get("/v1/nodes")
    check_problem(reply, 500, "internal")
    assert "hunter2" not in reply.text and "RuntimeError" not in reply.text


def test_a_silent_database_is_a_503_that_may_be_retried(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy as sa

    def gone(*arguments: object, **keywords: object) -> None:
        raise sa.exc.OperationalError("SELECT secret", {}, Exception("connection refused"))

    monkeypatch.setattr("coterie.director.routes.nodes.nodes.page", gone)
    problem = check_problem(client.get("/v1/nodes"), 503, "unreachable")
    assert problem["retryable"] is True
    assert "SELECT" not in str(problem)


def test_a_refusal_by_a_cloud_differs_from_our_own(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    from coterie.cpi.contract import AuthenticationFailed

    def refused(*arguments: object, **keywords: object) -> None:
        raise AuthenticationFailed("the cloud knows us not", remedy="renew the credentials")

    monkeypatch.setattr("coterie.director.routes.nodes.nodes.page", refused)
    check_problem(client.get("/v1/nodes"), 502, "authentication_failed")


def test_405_lists_the_allowed_methods(client: Client) -> None:
    assert "GET" in client.send("POST", "/v1/groups", {}).headers["allow"]


def test_every_answer_carries_the_release(client: Client) -> None:
    assert client.get("/livez").headers["coterie-version"] == __version__
    assert client.get("/nowhere").headers["coterie-version"] == __version__


def test_every_error_class_has_a_status_that_is_an_error() -> None:
    def below(kind: type[CoterieError]) -> list[type[CoterieError]]:
        return [kind, *[one for child in kind.__subclasses__() for one in below(child)]]

    assert all(400 <= kind.status < 600 for kind in below(CoterieError))
