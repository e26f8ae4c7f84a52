"""What each role sees and may do: no button that it may not press, and the server refuses the press all the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coterie.requests import start
from coterie.requests.request import PlanRequest
from tests.console.http import Visitor, words
from tests.console.world import MANIFEST, World, world

Make = Callable[..., Visitor]
PAGES = (
    "/", "/deployments", "/deployments/kafka", "/deployments/kafka/groups", "/deployments/kafka/disks",
    "/deployments/kafka/history", "/deployments/kafka/events", "/deployments/kafka/edit", "/placement", "/tasks",
    "/tasks/1", "/ring", "/clouds", "/clouds/config", "/events", "/access", "/wizard",
)  # fmt: skip
WHOLE = ("/cleanup", "/cleanup/1")  # not for callers that are limited to teams
# Every form of the console, and the least role that its change takes.
FORMS: dict[str, tuple[str, dict[str, str]]] = {
    "/plan": ("operator", {"kind": "deploy", "manifest": MANIFEST}),
    "/apply": ("operator", {"kind": "deploy", "manifest": MANIFEST, "name": "kafka", "plan": "stale"}),
    "/deployments/kafka/retry": ("operator", {}),
    "/deployments/kafka/look": ("operator", {}),
    "/tasks/1/cancel": ("operator", {}),
    "/cleanup": ("operator", {"clouds": "lab"}),
    "/cleanup/1/apply": ("operator", {"plan": "stale", "typed": "1", "count": "1"}),
    "/cleanup/undo": ("operator", {"names": "unknown"}),
    "/clouds/lab/check": ("operator", {}),
    "/clouds/lab/accept": ("operator", {"typed": "lab"}),
    "/clouds/stemcells": ("operator", {}),
    "/clouds/stemcells/os/2/delete": ("operator", {}),
    "/clouds/config": ("admin", {"text": "clouds: 1"}),
    "/access/tokens": ("admin", {"name": "mallory", "role": "admin"}),
    "/access/tokens/unknown/revoke": ("admin", {}),
    "/access/teams/kafka": ("admin", {"team": "red"}),
}
ROLES = ("viewer", "operator", "admin")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("roles")) as found:
        found.deploy()
        found.survey()
        yield found


def forms_of(text: str) -> set[str]:
    found = re.findall(r'<form method="post" action="([^"]*)"', text)
    uploads = re.findall(r'data-upload="([^"]*)"', text)
    return {*found, *uploads} - {"/logout"}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("path", FORMS)
def test_the_server_refuses_what_the_role_may_not_do(visitor: Make, role: str, path: str) -> None:
    least, fields = FORMS[path]
    answer = visitor(role).post(path, fields)
    assert (answer.status == 403) is (ROLES.index(role) < ROLES.index(least)), words(answer.text)
    assert answer.status != 500


def test_a_viewer_sees_every_page_and_no_button_that_changes_anything(visitor: Make) -> None:
    one = visitor("viewer")
    for path in (*PAGES, *WHOLE):
        answer = one.get(path)
        assert answer.status == 200, path
        shown = forms_of(answer.text)
        # The editor and the wizard only write a text; their plan is refused.
        allowed = {"/plan", "/wizard"} if path.endswith(("/edit", "/wizard")) else {"/clouds/config"}
        allowed |= {"/plan"} if path == "/deployments/kafka" else set()
        assert shown <= allowed, (path, shown)
    assert "/deployments/kafka/edit" not in one.get("/deployments/kafka").text
    assert "New deployment" not in one.get("/").text
    assert "Set it" not in one.get("/clouds/config").text


def test_an_operator_sees_no_button_of_an_admin(visitor: Make) -> None:
    one = visitor("operator")
    shown = set[str]().union(*(forms_of(one.get(path).text) for path in (*PAGES, *WHOLE)))
    assert {"/deployments/kafka/look", "/plan", "/cleanup", "/clouds/lab/check", "/clouds/stemcells"} <= shown
    assert not any(path.startswith("/access") for path in shown)
    assert "Set it" not in one.get("/clouds/config").text


def test_an_admin_sees_all_forms(visitor: Make) -> None:
    one = visitor("admin")
    shown = set[str]().union(*(forms_of(one.get(path).text) for path in (*PAGES, *WHOLE)))
    assert "/access/tokens" in shown and "/access/teams/kafka" in shown
    assert "Set it" in one.get("/clouds/config").text


def test_a_team_sees_nothing_of_others(visitor: Make) -> None:
    one = visitor("operator", "green")
    for path in ("/", "/deployments", "/placement", "/tasks", "/events", "/access"):
        answer = one.get(path)
        assert answer.status == 200, path
        assert "kafka" not in answer.text, path
    for path in ("/deployments/kafka", "/deployments/kafka/history", "/tasks/1"):
        assert one.get(path).status == 404, path
    for path in WHOLE:
        assert one.get(path).status == 403, path
    assert 'href="/cleanup"' not in one.get("/").text


def test_who_did_what_names_the_request_of_the_api(visitor: Make) -> None:
    one = visitor("admin")
    one.post("/access/teams/kafka", {"team": "blue"})
    said = words(one.get("/access").text)
    assert "PATCH /v1/deployments/kafka" in said and "POST /login" in said


def test_a_plan_that_destroys_is_refused_without_the_typed_name(visitor: Make) -> None:
    one = visitor("operator")
    one.get("/deployments/kafka")
    shown = one.post("/plan", {"kind": "delete", "deployment": "kafka"}).text
    plan_id = re.search(r'name="plan" value="([^"]+)"', shown)
    assert plan_id is not None and "Destroys" in words(shown)
    fields = {"kind": "delete", "deployment": "kafka", "name": "kafka", "plan": plan_id[1], "destructive": "true"}
    assert one.post("/apply", {**fields, "typed": "kafk"}).status == 422


def test_a_plan_that_is_stale_by_now_is_refused(visitor: Make, there: World) -> None:
    one = visitor("operator")
    text = MANIFEST.replace("instances: 4", "instances: 5")
    shown = one.post("/plan", {"kind": "deploy", "manifest": text}).text
    plan_id = re.search(r'name="plan" value="([^"]+)"', shown)
    assert plan_id is not None
    there.deploy(MANIFEST.replace("instances: 4", "instances: 6"))
    answer = one.post("/apply", {"kind": "deploy", "manifest": text, "name": "kafka", "plan": plan_id[1]})
    assert answer.status == 412 and "out of date" in words(answer.text)


def test_an_empty_director_says_what_to_do_first(tmp_path: Path) -> None:
    with world(tmp_path, config="") as bare:
        one = Visitor(bare.url).log_in(bare.token("admin"))
        said = words(one.get("/").text)
        assert "What to do first" in said and "Set the clouds" in said
        for path in ("/deployments", "/placement", "/tasks", "/ring", "/cleanup", "/clouds", "/events"):
            assert one.get(path).status == 200, path
        assert one.get("/wizard").headers["location"] == "/clouds"
        answer = one.get("/clouds/config")
        assert answer.status == 200
        bad = one.post("/clouds/config", {"text": "clouds: []\nazs: 1\n", "tag": ""})
        assert bad.status == 422 and "Line 2" in words(bad.text)


def test_undo_saves_a_disk_from_its_window(visitor: Make, there: World) -> None:
    there.deploy(MANIFEST.replace("name: kafka", "name: brief"), "brief")
    gone = start.deploy(there.context.ledger, PlanRequest(deployment="brief", delete=True), None, "test")
    there.site.wait(gone)
    one = visitor("operator")
    page = one.get("/cleanup").text
    offered = re.findall(r'name="names" value="([^"]+)"', page)
    assert len(offered) == 4 and "in its undo window" in words(page)
    assert one.post("/cleanup/undo").status == 422
    said = words(one.follow(one.post("/cleanup/undo", [("names", offered[0])])).text)
    assert said.count("saved by undo") == 1 and said.count("in its undo window") == 3


def test_a_form_of_a_session_that_has_ended_says_so(there: World) -> None:
    answer = Visitor(there.url).post("/deployments/kafka/look")
    assert answer.status == 401 and "session has ended" in words(answer.text)


def test_the_wizard_works_without_scripts(visitor: Make) -> None:
    one = visitor("operator")
    fields = {"name": "shop", "stemcell": "os 1", "g0_name": "front", "g0_instances": "two", "g0_vm_type": "small"}
    written = one.post("/wizard", {**fields, "do": "write"})
    assert written.status == 200 and "name: shop" in written.text and "it must be a whole number" in words(written.text)
    more = one.post("/wizard", {**fields, "do": "add"}).text
    assert 'name="g1_name"' in more and 'value="front"' in more
    less = one.post("/wizard", {**fields, "groups": "2", "g1_name": "back", "do": "remove0"}).text
    assert 'name="g1_name"' not in less and 'value="back"' in less
