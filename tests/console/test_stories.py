"""What people do on the pages, in a real browser: from the wizard to running nodes, live progress, plans and their
confirmation, cleanup, tokens, uploads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.console.conftest import Screen, open_screen
from tests.console.world import MANIFEST, World
from tests.requests.strangers import exists, stranger

pytestmark = pytest.mark.usefixtures("furnished")


def plan_and_confirm(page: Page, name: str) -> None:
    """From the plan's page to the task's; what destroys takes the name."""
    expect(page.locator("h1")).to_contain_text(f"Plan for {name}")
    if page.locator("#typed").count():
        expect(page.locator(".confirm button[type=submit]")).to_be_disabled()
        page.fill("#typed", name)
    page.click(".confirm button[type=submit]")
    page.wait_for_url(re.compile(r"/tasks/\d+$"))


def wait_for_end(page: Page, state: str = "done") -> None:
    """The page tells it by itself, without being loaded again."""
    expect(page.locator("#task-state")).to_contain_text(state, timeout=60_000)


def test_the_wizard_leads_to_running_nodes(screen: Screen, there: World) -> None:
    page = screen.go("/wizard")
    page.fill("#w-name", "web-shop")
    page.get_by_role("button", name="Next").click()
    page.fill("#g0-name", "front")
    page.fill("#g0-instances", "two")
    expect(page.locator("#mistakes")).to_contain_text("Line 6")
    expect(page.locator("#mistakes")).to_contain_text("instances")
    screen.shoot("wizard-mistake")
    page.fill("#g0-instances", "2")
    expect(page.locator("#mistakes")).to_contain_text("no mistakes found")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_role("radio", name=re.compile("^anti-affinity")).check()
    expect(page.locator("#manifest")).to_have_value(re.compile("policy: anti-affinity"))
    assert page.locator(".policy svg").count() == 6
    assert screen.judge() == []
    screen.shoot("wizard-placement")
    page.get_by_role("button", name="Next").click()
    page.click("#to-plan")
    expect(page.locator(".sum")).to_contain_text("to create")
    screen.shoot("plan")
    assert screen.judge() == []
    plan_and_confirm(page, "web-shop")
    wait_for_end(page)
    screen.go("/deployments/web-shop")
    expect(page.locator("#live tbody tr")).to_have_count(2)
    expect(page.locator("#live tbody")).to_contain_text("up")
    assert len(there.site.nodes("web-shop")) == 2


def test_the_drs_groups_of_vsphere_are_written_as_they_are_filled_in(screen: Screen) -> None:
    page = screen.go("/wizard")
    page.get_by_role("button", name="Placement").click()
    page.get_by_role("radio", name=re.compile("^host-affinity")).check()
    page.get_by_label(re.compile("^DRS VM group")).fill("licensed-vms")
    page.get_by_label(re.compile("^DRS host group")).fill("licensed-hosts")
    page.get_by_label("How strict").select_option("should")
    text = page.locator("#manifest")
    expect(text).to_have_value(re.compile("policy: host-affinity\n    vm_group: licensed-vms"))
    expect(text).to_have_value(re.compile("host_group: licensed-hosts\n    rule: should"))
    screen.shoot("wizard-drs")


def test_the_text_beside_the_form_can_be_edited_and_then_counts(screen: Screen) -> None:
    page = screen.go("/wizard")
    page.fill("#manifest", "name: mine\nbad: 1\n")
    expect(page.locator("#mistakes")).to_contain_text("bad")
    expect(page.locator("#edited")).to_be_visible()
    expect(page.locator("#w-name")).to_be_disabled()
    page.get_by_role("button", name=re.compile("Line")).first.click()
    assert page.evaluate("document.activeElement.id") == "manifest"
    page.click("#drop-edits")
    expect(page.locator("#manifest")).to_have_value(re.compile("instance_groups"))
    expect(page.locator("#w-name")).to_be_enabled()


def test_a_mistake_that_only_the_plan_finds_leads_back_to_the_text(screen: Screen) -> None:
    screen.expect("status of 422")
    page = screen.go("/deployments/kafka/edit")
    page.fill("#manifest", MANIFEST.replace("azs: [z1, z2]", "azs: [z9]", 1))
    expect(page.locator("#mistakes")).to_contain_text("z9")
    page.click("button.primary[type=submit]")
    expect(page.locator("#mistakes .excerpt").first).to_contain_text("z9")
    expect(page.locator("#manifest")).to_have_value(re.compile("z9"))


def test_progress_is_live_while_a_deployment_runs(screen: Screen, there: World) -> None:
    """Nothing is loaded again: the words change on the page that is open."""
    slow = MANIFEST.replace("name: kafka", "name: slow").replace(
        "  placement: {policy: anti-affinity}",
        "  placement: {policy: anti-affinity}\n  health: {kind: tcp, port: 9}",
        1,
    )
    page = screen.go("/deployments/kafka/edit")
    page.fill("#manifest", slow.replace("canary_watch_s: 5", "canary_watch_s: 240"))
    page.click("button.primary[type=submit]")
    plan_and_confirm(page, "slow")
    page.evaluate("window.untouched = true")
    expect(page.locator("section[aria-labelledby=waits], section[aria-labelledby=running]").first).to_contain_text(
        "controller/0"
    )
    first = page.locator(".line").inner_html()
    expect(page.locator("#live-state")).to_have_text("● live")
    page.wait_for_function("(first) => document.querySelector('.line').innerHTML !== first", arg=first)
    screen.shoot("task-running")
    assert screen.judge() == []
    screen.go("/")
    expect(page.get_by_role("table", name="Tasks that run")).to_contain_text("slow")
    page.go_back()
    page.click("#cancel")
    expect(page.locator("#task-state")).to_contain_text("cancel")
    wait_for_end(page, "cancelled")
    expect(page.get_by_role("button", name="Deploy again…")).to_be_visible()
    number = page.url.rpartition("/")[2]
    there.site.wait(int(number), "cancelled")


def test_the_map_is_live_and_says_what_a_loss_takes_down(screen: Screen, there: World) -> None:
    page = screen.go("/placement?deployment=kafka")
    assert page.locator(".map-node[data-node]").count() == len(there.site.nodes("kafka"))
    group = page.locator(".group-list .group", has_text="controller").first
    group.focus()
    expect(page.locator("#map-say")).to_contain_text("no two nodes on one host")
    assert page.locator(".map-node.lit").count() == 3
    screen.shoot("map-group")
    host = page.locator(".map-zone[data-host]").filter(has=page.locator("[data-node]")).first
    host.focus()
    expect(page.locator("#map-say")).to_contain_text("its loss takes down 1 node")
    before = page.locator(".map-node[data-node]").count()
    there.deploy(MANIFEST.replace("instances: 4", "instances: 6"))
    expect(page.locator(".map-node[data-node]")).to_have_count(before + 2)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as SVG").click()
    assert "<svg" in Path(download.value.path()).read_text()


def test_nodes_are_recreated_through_a_plan_with_the_typed_name(screen: Screen, there: World) -> None:
    before = there.site.nodes("kafka")["broker/1"].vm_cid
    page = screen.go("/deployments/kafka")
    page.get_by_label("choose broker/1").check()
    page.get_by_role("button", name="Show the plan").click()
    expect(page.locator(".danger-box")).to_contain_text("broker/1")
    screen.shoot("plan-destroys")
    assert screen.judge() == []
    page.fill("#typed", "kafk")
    expect(page.locator(".confirm button[type=submit]")).to_be_disabled()
    plan_and_confirm(page, "kafka")
    wait_for_end(page)
    assert there.site.nodes("kafka")["broker/1"].vm_cid != before


def test_a_live_update_keeps_what_was_ticked(screen: Screen, there: World) -> None:
    page = screen.go("/deployments/kafka")
    box = page.get_by_label("choose broker/0")
    box.check()
    page.evaluate("document.querySelector('#live').dataset.old = 'yes'")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('live'))")
    page.wait_for_selector("#live:not([data-old])")
    expect(page.get_by_label("choose broker/0")).to_be_checked()


def test_scaling_shows_the_difference_in_the_history(screen: Screen) -> None:
    page = screen.go("/deployments/kafka/edit")
    text = page.input_value("#manifest")
    page.fill("#manifest", re.sub(r"instances: \d", "instances: 4", text, count=1))
    page.get_by_role("button", name="Show the plan").click()
    plan_and_confirm(page, "kafka")
    wait_for_end(page)
    screen.go("/deployments/kafka/history")
    expect(page.locator(".diff .add")).to_contain_text("instances: 4")
    expect(page.locator(".diff .del")).to_contain_text("instances: 3")


def test_a_deployment_is_deleted_with_kept_disks_and_these_afterwards(screen: Screen, there: World) -> None:
    there.deploy(MANIFEST.replace("name: kafka", "name: gone"), "gone")
    page = screen.go("/deployments/gone")
    page.locator("details.menu summary").click()
    page.get_by_role("button", name="Delete, keep disks…").click()
    plan_and_confirm(page, "gone")
    wait_for_end(page)
    assert there.site.nodes("gone") == {}
    screen.expect("404")
    screen.go("/deployments/gone")
    expect(page.locator("h1")).to_have_text("Not found")


def test_cleanup_finds_proves_and_deletes_what_was_left(screen: Screen, there: World) -> None:
    foreign = stranger(there.site.folder, "foreign")
    leave_behind(there)
    page = screen.go("/cleanup")
    page.fill("input[name=grace_s]", "0")
    page.fill("input[name=cap_percent]", "100")
    page.get_by_role("button", name="Survey").click()
    page.wait_for_url(re.compile(r"/cleanup/\d+$"))
    expect(page.locator("p[role=status]").first).to_contain_text("planned", timeout=60_000)
    expect(page.locator("#plan")).to_be_visible()
    expect(page.get_by_role("table", name="Plan")).to_contain_text("vm")
    expect(page.get_by_role("table", name="Findings")).to_contain_text("orphan")
    assert screen.judge() == []
    screen.shoot("cleanup-plan")
    count = page.locator("input[data-match]").get_attribute("data-match") or ""
    page.fill("#typed", count)
    page.get_by_role("button", name="Carry it out").click()
    expect(page.locator("p[role=status]").first).to_contain_text("swept", timeout=60_000)
    assert exists(there.site.folder, foreign)


def leave_behind(there: World) -> None:
    """A deployment that is abandoned: its machines are there, and no row wants them."""
    from coterie.requests.operations import abandon

    there.deploy(MANIFEST.replace("name: kafka", "name: lost"), "lost")
    abandon(there.context.ledger, "lost")


def test_clouds_are_checked_and_a_stemcell_is_uploaded(screen: Screen, tmp_path: Path) -> None:
    page = screen.go("/clouds")
    page.get_by_role("button", name="Check now").click()
    expect(page.get_by_role("table", name="Checks of lab")).to_contain_text("credentials")
    assert "settle_s" not in page.content()
    expect(page.get_by_role("table", name="Quotas of lab")).to_contain_text("of 100")
    expect(page.get_by_role("img", name=re.compile("of 100 used"))).to_be_visible()
    page.set_input_files("#stemcell", stemcell(tmp_path))
    page.click("#upload button")
    expect(page.get_by_role("table", name="Stemcells")).to_contain_text("debian-12")
    page.set_input_files("#stemcell", {"name": "bad.tgz", "mimeType": "application/gzip", "buffer": b"no tarball"})
    screen.expect("status of 4")
    page.click("#upload button")
    expect(page.locator("#upload-say")).to_contain_text("What to do")


def stemcell(folder: Path) -> str:
    from coterie.cli.demo.files import write_files

    write_files(folder)
    return str(folder / "stemcell-1.1.tgz")


def test_the_ring_says_what_would_move(screen: Screen) -> None:
    page = screen.go("/ring")
    expect(page.get_by_role("table", name="Conductors", exact=True)).to_contain_text("alive")
    page.get_by_role("checkbox", name="c", exact=True).check()
    page.get_by_role("button", name="Show what moves").click()
    expect(page.locator("#moved")).to_contain_text("would have no conductor")
    page.fill("input[name=name]", "c9")
    page.fill("input[name=drivers]", "sandbox")
    page.get_by_role("button", name="Show what moves").click()
    expect(page.locator("#moved")).to_contain_text("c9")
    expect(page.locator("#moved")).not_to_contain_text("would have no conductor")


def test_filters_of_events_are_the_url(screen: Screen) -> None:
    page = screen.go("/events")
    page.fill("input[name=kind]", "node.up")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("kind=node.up"))
    kinds = page.locator("#live tbody code.kind").all_inner_texts()
    assert set(kinds) == {"node.up"}
    page.reload()
    assert page.input_value("input[name=kind]") == "node.up"


def test_a_token_is_shown_once_used_and_revoked(screen: Screen, there: World, browser: Browser) -> None:
    page = screen.go("/access")
    page.fill("input[name=name]", "ann")
    page.get_by_label("Role").select_option("operator")
    page.get_by_role("button", name="Make a token").click()
    text = page.input_value("#new-token")
    assert text.startswith("cot_")
    assert screen.judge() == []
    screen.go("/access")
    assert page.locator("#new-token").count() == 0 and text not in page.content()
    with open_screen(there, browser, text) as hers:
        expect(hers.page.locator(".me summary")).to_have_text("ann")
        page.get_by_role("button", name=f"Revoke {text.split('_')[1]}").click()
        page.wait_for_load_state()
        hers.expect("401")
        hers.page.wait_for_url(re.compile("/login"))  # her page is live: it learns it by itself
    expect(page.get_by_role("table", name="Who did what")).to_contain_text("DELETE /v1/tokens/")


def test_the_menu_leads_to_the_pages_and_out(screen: Screen) -> None:
    page = screen.go("/ring")
    page.get_by_role("link", name="Now", exact=True).click()
    expect(page.locator("h1")).to_have_text("Now")
    page.locator(".me summary").click()
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(re.compile("/login$"))
