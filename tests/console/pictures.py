"""Makes the two screenshots of the README again: `python -m tests.console.pictures docs`. Needs Debian's chromium."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from coterie.sandbox import faults
from coterie.sandbox.datacenter import open_datacenter
from tests.console.world import MANIFEST, World, world

_WEB = """\
name: shop
stemcells:
- {alias: default, name: os, version: "1"}
instance_groups:
- name: web
  instances: 8
  azs: [z1, z2]
  vm_type: small
  stemcell: default
  networks: [{name: net}]
  placement: {policy: soft-anti-affinity}
- name: database
  instances: 3
  azs: [z1, z2]
  vm_type: small
  stemcell: default
  persistent_disk_type: data
  networks: [{name: net}]
  placement: {policy: anti-affinity}
- name: cache
  instances: 3
  azs: [z2]
  vm_type: small
  stemcell: default
  networks: [{name: net}]
  placement: {policy: affinity}
update: {canaries: 1, max_in_flight: 3, serial: false, update_watch_s: 30, canary_watch_s: 30}
"""


def main() -> None:
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    with tempfile.TemporaryDirectory() as folder, world(Path(folder)) as there, sync_playwright() as playwright:
        there.deploy(MANIFEST)
        store = open_datacenter(Path(folder) / "sandbox.db", create=False).store
        for ms in (400, 900, 1500, 600):  # machines that boot at different speeds
            faults.add(store, "create_vm", "slow-build", times=4, ms=ms)
        task = there.deploy(_WEB, "shop")
        browser = playwright.chromium.launch(
            executable_path=os.environ.get("COTERIE_CHROMIUM", "/usr/bin/chromium"),
            args=["--no-sandbox"] if os.geteuid() == 0 else [],
        )
        shoot(there, browser, "/placement", target / "console-map.png", 860)
        shoot(there, browser, f"/tasks/{task}", target / "console-task.png", 980, "#line")
        browser.close()


def shoot(there: World, browser: Browser, path: str, file: Path, height: int, part: str = "") -> None:
    page = browser.new_context(viewport={"width": 1240, "height": height}, device_scale_factor=1.5).new_page()
    page.goto(f"{there.url}/login")
    page.fill("#token", there.token("admin"))
    page.click("button[type=submit]")
    page.wait_for_url(f"{there.url}/")
    page.goto(there.url + path)
    page.wait_for_timeout(500)
    page.evaluate("document.activeElement.blur()")
    group = page.locator(".group-list .group").last
    if group.count():
        group.dispatch_event("focusin")
    if part:
        page.locator(part).scroll_into_view_if_needed()
        page.evaluate("(part) => scrollTo(0, document.querySelector(part).getBoundingClientRect().top - 90)", part)
    page.screenshot(path=str(file))


if __name__ == "__main__":
    main()
