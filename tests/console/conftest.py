"""One Director for each module of tests, and one browser."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.console.http import Visitor
from tests.console.world import World, world

expect.set_options(timeout=60_000)  # other tests keep the machine busy
_ROOT = Path(__file__).parents[2]
SCREENS = Path(os.environ.get("COTERIE_SCREENSHOTS") or _ROOT / "build" / "console")
_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (one) =>
  window.violations.push(`${one.violatedDirective}: ${one.blockedURI} ${one.sourceFile} ${one.sample}`));
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture(scope="module")
def furnished(there: World) -> World:
    there.deploy()
    return there


@pytest.fixture
def visitor(there: World) -> Callable[..., Visitor]:
    """A new one with a role, logged in."""

    def make(role: str = "admin", *teams: str) -> Visitor:
        return Visitor(there.url).log_in(there.token(role, *teams))

    return make


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = os.environ.get("COTERIE_CHROMIUM", "/usr/bin/chromium")
    if not Path(path).exists():
        pytest.skip("no Chromium that a program can drive is installed (CONTRIBUTING.md, Tests)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=path,
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        yield chromium
        chromium.close()


@dataclass
class Screen:
    """A page of the browser; what it complained of is looked at when the test ends."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.note_violations()
        self.page.goto(self.url + path)
        return self.page

    def note_violations(self) -> None:
        if self.page.url.startswith("http"):
            self.complaints += self.page.evaluate("window.violations || []")

    def note_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} {self.page.url} {message.location}")

    def expect(self, words: str) -> None:
        """A message of the browser that belongs to the story, as the one about a form that is refused."""
        self.expected.append(words)

    def shoot(self, name: str) -> None:
        SCREENS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=str(SCREENS / f"{re.sub(r'[^a-z0-9-]+', '_', name)}.png"), full_page=True)

    def judge(self) -> list[str]:
        """What axe-core finds wrong with the page as it is."""
        self.page.evaluate(axe())
        found: list[dict[str, Any]] = self.page.evaluate("axe.run(document).then((all) => all.violations)")
        return [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in found]

    def end(self) -> None:
        self.note_violations()
        left = [one for one in self.complaints if not any(words in one for words in self.expected)]
        assert left == []


@pytest.fixture
def screen(there: World, browser: Browser) -> Iterator[Screen]:
    """Of an admin."""
    with open_screen(there, browser, there.token("admin")) as opened:
        yield opened
        opened.end()


class open_screen:
    """A logged-in page in a context of its own."""

    def __init__(self, there: World, browser: Browser, token: str, **options: Any) -> None:
        self._there, self._token = there, token
        self._context: BrowserContext = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self._context.add_init_script(_VIOLATIONS)
        self._context.set_default_timeout(60_000)

    def __enter__(self) -> Screen:
        page = self._context.new_page()
        made = Screen(page, self._there.url)
        page.on("console", made.note_message)
        page.on("pageerror", lambda error: made.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: made.complaints.append(f"dialog: {dialog.message}"))
        made.go("/login")
        page.fill("#token", self._token)
        page.click("button[type=submit]")
        page.wait_for_url(f"{self._there.url}/")
        return made

    def __exit__(self, *_: object) -> None:
        self._context.close()


_AXE: list[str] = []


def axe() -> str:
    """Its source, from the cache that `make packages` fills."""
    if not _AXE:
        found = subprocess.run([_ROOT / "tests/peers/axe/fetch"], check=True, capture_output=True, text=True)
        _AXE.append(Path(found.stdout.strip()).read_text("utf-8"))
    return _AXE[0]
