"""Logging in and out, sessions, their cookies, and what other sites may not do."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from coterie.director.access.attempts import Attempts
from coterie.director.access.caller import Caller
from coterie.director.console import render, sessions
from coterie.ledger.rows import tokens
from tests.console.http import Visitor, words
from tests.console.world import World

Make = Callable[..., Visitor]
PAGES = ("/", "/deployments", "/placement", "/tasks", "/ring", "/cleanup", "/clouds", "/events", "/access", "/wizard")

ANN = Caller("ann", "operator", "socket")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_asks_for_a_login_and_comes_back_to_the_page(there: World, path: str) -> None:
    answer = Visitor(there.url).get(path)
    assert (answer.status, answer.headers["location"]) == (303, f"/login?next={path}")


def test_the_api_takes_no_session(there: World, visitor: Make) -> None:
    assert visitor().get("/v1/deployments").status == 401


def test_a_token_logs_in_and_the_cookie_is_out_of_reach(there: World) -> None:
    browser = Visitor(there.url)
    answer = browser.post("/login", {"token": there.token("viewer"), "next": "/tasks"})
    assert answer.status == 200 and 'content="0;url=/tasks"' in answer.text
    (cookie,) = answer.cookies
    assert all(word in cookie for word in ("HttpOnly", "Secure", "SameSite=strict", "Path=/", "Max-Age=43200"))
    assert browser.get("/").status == 200


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
)
def test_a_login_leads_to_no_other_site(there: World, target: str) -> None:
    answer = Visitor(there.url).post("/login", {"token": there.token("viewer"), "next": target})
    assert 'content="0;url=/"' in answer.text


@pytest.mark.parametrize("token", ["", "cot_wrong_token", "one two", "ä"])
def test_a_wrong_token_is_refused_with_words(there: World, token: str) -> None:
    answer = Visitor(there.url).post("/login", {"token": token})
    assert answer.status == 401 and not answer.cookies
    assert "token" in words(answer.text)


def test_pages_have_the_security_headers(there: World, visitor: Make) -> None:
    for path in ("/", "/login", "/nothing-here", "/assets/console.css"):
        headers = visitor().get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert visitor().get("/").headers["cache-control"] == "no-store"


def test_no_page_has_a_script_or_style_of_its_own(there: World, visitor: Make) -> None:
    one = visitor()
    for path in (*PAGES, "/login"):
        text = one.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style| style=| on[a-z]+=|javascript:", text), path


def test_logging_out_ends_the_session_for_good(there: World, visitor: Make) -> None:
    one = visitor()
    before = dict(one.cookies)
    assert one.post("/logout").headers["location"] == "/login"
    one.cookies = before
    assert one.get("/").status == 303


def test_a_session_ends_with_its_token(there: World) -> None:
    text = there.token("viewer")
    one = Visitor(there.url).log_in(text)
    with there.context.ledger.write() as tx:
        tokens.revoke(tx, text.split("_")[1])
    assert one.get("/").status == 303


def test_a_session_of_the_directors_own_token_ends_when_that_token_is_another(
    there: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(there.context, "token", "the-first-one")
    one = Visitor(there.url).log_in("the-first-one")
    assert one.get("/").status == 200
    monkeypatch.setattr(there.context, "token", "the-second-one")
    assert one.get("/").status == 303
    monkeypatch.setattr(there.context, "token", None)
    assert one.get("/").status == 303


def test_a_new_login_ends_the_session_that_the_browser_had(there: World) -> None:
    one = Visitor(there.url).log_in(there.token("admin"))
    before = dict(one.cookies)
    one.log_in(there.token("viewer"))
    assert one.get("/").status == 200
    one.cookies = before
    assert one.get("/").status == 303


def test_a_session_ends_with_its_time(there: World) -> None:
    secret, _ = sessions.begin(there.context, ANN, -1.0)
    assert sessions.caller_of(there.context, secret) is None


def test_a_session_is_of_the_listener_that_it_was_begun_at(there: World) -> None:
    """Another process may listen at the same port later, and is sent the cookie."""
    secret, _ = sessions.begin(there.context, ANN, 1.0, "first")
    assert sessions.caller_of(there.context, secret, "first") == ANN
    for other in ("second", ""):
        assert sessions.caller_of(there.context, secret, other) is None
    code = sessions.make_link_code(there.context, ANN, "first")
    assert sessions.take_link_code(there.context, code, "second") is None
    assert sessions.take_link_code(there.context, code, "first") == ANN


def test_a_link_logs_in_once(there: World) -> None:
    code = sessions.make_link_code(there.context, ANN)
    one, two = Visitor(there.url), Visitor(there.url)
    assert one.post("/login/link", {"code": code}).status == 200
    assert "operator" in words(one.get("/access").text)
    answer = two.post("/login/link", {"code": code})
    assert answer.status == 401 and not answer.cookies
    assert two.get(f"/login/link?code={code}").status == 401


def test_a_link_says_whom_it_logs_in_and_does_it_at_a_click(there: World) -> None:
    """The sender of a link may be another user, and programs open links before their reader does."""
    code = sessions.make_link_code(there.context, ANN)
    one = Visitor(there.url)
    for _ in range(2):
        answer = one.get(f"/login/link?code={code}", sec_fetch_site="cross-site")
        assert answer.status == 200 and not answer.cookies and "as ann" in words(answer.text)
    answer = one.post("/login/link", {"code": code}, sec_fetch_site="cross-site")
    assert answer.status == 403 and not answer.cookies
    assert one.post("/login/link", {"code": code}, sec_fetch_site="same-origin").cookies


def test_a_wrong_code_writes_nothing_and_is_counted(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    right = sessions.make_link_code(there.context, ANN)
    monkeypatch.setattr(there.context, "attempts", Attempts())
    monkeypatch.setattr(there.context.ledger, "write", None)
    one = Visitor(there.url)
    answers = [one.get("/login/link?code=x").status for _ in range(5)]
    answers += [one.post("/login/link", {"code": "x"}).status for _ in range(6)]
    assert answers == [401] * 10 + [429]
    there.context.attempts.remember_success(right)  # as the route does that made it
    assert one.get(f"/login/link?code={right}").status == 200


def test_names_of_files_that_are_not_there_are_not_kept(there: World) -> None:
    one = Visitor(there.url)
    caches = [found for found in vars(render).values() if hasattr(found, "cache_info")]
    assert one.get("/assets/console.css").status == 200
    before = [found.cache_info().currsize for found in caches]
    assert {one.get(f"/assets/{name}").status for name in ("a.css", "b.css", "..%2Frender.py", "htmx.LICENSE")} == {404}
    assert [found.cache_info().currsize for found in caches] == before


_FORMS = ("/logout", "/plan", "/apply", "/cleanup", "/access/tokens", "/clouds/config", "/tasks/1/cancel")


@pytest.mark.parametrize("path", _FORMS)
def test_a_form_without_the_sessions_mark_changes_nothing(there: World, visitor: Make, path: str) -> None:
    one = visitor()
    one.csrf = ""
    assert one.post(path).status == 403
    one.csrf = "0" * 64
    assert one.post(path).status == 403
    assert one.get("/").status == 200


def test_a_form_of_another_site_is_refused_even_with_the_mark(there: World, visitor: Make) -> None:
    one = visitor()
    assert one.post("/logout", sec_fetch_site="cross-site").status == 403
    assert one.post("/logout", origin="https://evil.example").status == 403
    assert one.post("/login", {"token": "x"}, origin="https://evil.example").status == 403
    assert one.get("/").status == 200


def test_a_link_on_another_site_leads_to_the_page_all_the_same(there: World) -> None:
    """The browser holds the strict cookie back; our own page asks again, with it."""
    answer = Visitor(there.url).get("/tasks", sec_fetch_site="cross-site")
    assert answer.status == 200 and 'content="0;url=/tasks"' in answer.text


def test_what_is_not_there_is_a_page_for_browsers_and_a_problem_for_programs(there: World, visitor: Make) -> None:
    one = visitor()
    assert one.get("/nothing").status == 404 and "<html" in one.get("/nothing").text
    assert one.get("/deployments/nothing").status == 404
    assert one.get("/assets/nothing.css").status == 404
    assert one.get("/v1/nothing").headers["content-type"] == "application/problem+json"
