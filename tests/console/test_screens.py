"""Every page in a real browser: no complaint of the browser, nothing that axe-core finds, in both themes and on a
phone. The pictures stay in build/console."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from coterie.director.access.caller import Caller
from coterie.director.console import sessions
from tests.console.conftest import Screen, open_screen
from tests.console.world import MANIFEST, World, unhealthy

PAGES = {
    "now": "/",
    "deployments": "/deployments",
    "deployment": "/deployments/kafka",
    "groups": "/deployments/kafka/groups",
    "disks": "/deployments/kafka/disks",
    "history": "/deployments/kafka/history",
    "deployment-events": "/deployments/kafka/events",
    "edit": "/deployments/kafka/edit",
    "placement": "/placement",
    "rack": "/placement?rack=lab/z1/z1-r1",
    "audit": "/placement/audit?deployment=kafka",
    "tasks": "/tasks?looks=yes",
    "task": "/tasks/1",
    "failed-task": "/tasks/3",
    "ring": "/ring",
    "what-if": "/ring?without=c&name=c9&drivers=sandbox",
    "cleanups": "/cleanup",
    "cleanup": "/cleanup/1",
    "clouds": "/clouds",
    "cloud-config": "/clouds/config",
    "events": "/events?kind=audit",
    "access": "/access",
    "wizard": "/wizard",
    "not-found": "/deployments/nothing",
}


@pytest.fixture(scope="module")
def full(furnished: World) -> World:
    """With a second manifest, a failed deployment, and a survey with something to say."""
    furnished.deploy(MANIFEST.replace("instances: 4", "instances: 5"))
    failing = unhealthy(MANIFEST.replace("name: kafka", "name: broken"))
    quick = failing.replace("update_watch_s: 5, canary_watch_s: 5", "update_watch_s: 0.5, canary_watch_s: 0.5")
    furnished.deploy(quick, "broken", "failed")
    furnished.survey()
    return furnished


@pytest.fixture(scope="module")
def shared(full: World, browser: Browser) -> Iterator[Screen]:
    with open_screen(full, browser, full.token("admin")) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_sound(shared: Screen, name: str) -> None:
    shared.complaints.clear()
    shared.expected = ["404"] if name == "not-found" else []
    page = shared.page
    page.set_viewport_size({"width": 1280, "height": 900})
    found = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        shared.go(PAGES[name])
        found[theme] = shared.judge()
        shared.shoot(f"{name}-{theme}")
    page.set_viewport_size({"width": 360, "height": 740})
    wide = page.evaluate("document.documentElement.scrollWidth")
    shared.shoot(f"{name}-phone")
    assert found == {"light": [], "dark": []}
    assert wide <= 360
    shared.end()


def test_the_login_page_is_sound(there: World, browser: Browser) -> None:
    with open_screen(there, browser, there.token("viewer")) as opened:
        for theme in ("light", "dark"):
            opened.page.emulate_media(color_scheme=theme)
            opened.go("/login")
            assert opened.judge() == []
            opened.shoot(f"login-{theme}")
            code = sessions.make_link_code(there.context, Caller("ann", "operator", "socket", frozenset({"red"})))
            opened.go(f"/login/link?code={code}")
            assert opened.judge() == []
            opened.shoot(f"link-{theme}")
        opened.page.click("button[type=submit]")
        opened.page.wait_for_url(f"{there.url}/")
        assert opened.page.locator(".me summary").inner_text() == "ann"
        opened.end()


def test_a_chosen_theme_stays(shared: Screen) -> None:
    shared.complaints.clear()
    page = shared.go("/")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.click("#theme")
    page.click("#theme")
    shared.go("/tasks")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(231, 236, 241)"
    page.click("#theme")
    shared.end()


def test_the_keyboard_reaches_everything_in_order(shared: Screen) -> None:
    page = shared.go("/deployments/kafka")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    wanted = page.evaluate(
        "[...document.querySelectorAll('main a[href], main button, main input:not([type=hidden]), main select')]"
        ".filter((one) => one.offsetParent && !one.closest('details:not([open])')).length"
    )
    reached = set()
    for _ in range(wanted + 12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("[...document.querySelectorAll('main *')].indexOf(document.activeElement)"))
        shown = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert shown != "none" or page.evaluate("document.activeElement === document.body")
    assert len(reached - {-1}) >= wanted


def test_motion_is_left_out_where_it_is_not_wanted(shared: Screen) -> None:
    page = shared.page
    page.emulate_media(reduced_motion="reduce")
    shared.go("/placement")
    assert page.evaluate("getComputedStyle(document.querySelector('.map-node rect')).transitionDuration") == "0s"
    page.emulate_media(reduced_motion="no-preference")
