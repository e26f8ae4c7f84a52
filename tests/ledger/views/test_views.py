"""Each read model shows what the rows say, on both databases."""

from __future__ import annotations

import pytest

from coterie.errors import NotFound
from coterie.ledger.rows import replies
from coterie.ledger.store import Ledger, time
from coterie.ledger.views import (
    clouds,
    conductors,
    counts,
    deployments,
    events,
    groups,
    nodes,
    objects,
    stemcells,
    tasks,
    waiting,
)
from coterie.ledger.views.page import Slice
from tests.ledger.views import rows

EVERYTHING = Slice(1000)


def test_nodes_can_be_filtered_and_carry_their_group(ledger: Ledger) -> None:
    rows.group(ledger, "g1")
    rows.node(ledger, "broker", 0, server_group="g1", addresses={"net": "10.0.0.4"})
    rows.node(ledger, "broker", 1, state="failing", az="z2")
    rows.node(ledger, "web", 0, deployment="other", cloud="far")
    with ledger.read() as tx:
        assert [n["name"] for n in nodes.page(tx, EVERYTHING, state="failing").items] == ["broker/1"]
        assert [n["name"] for n in nodes.page(tx, EVERYTHING, deployment="other", cloud="far").items] == ["web/0"]
        assert nodes.page(tx, EVERYTHING, deployment="other", cloud="lab").items == []
        first = nodes.page(tx, EVERYTHING, instance_group="broker", az="z1").items[0]
    assert (first["server_group"], first["server_group_cid"]) == ("data", "cg-g1")
    assert first["addresses"] == {"net": "10.0.0.4"}


def test_a_node_is_found_by_uuid_and_by_slot_with_its_living_objects(ledger: Ledger) -> None:
    uuid = rows.node(ledger, "broker", 3, spec={"cpu": 2})
    rows.cloud_object(ledger, "i1", kind="vm", node=uuid, cid="vm-1")
    rows.cloud_object(ledger, "i2", node=uuid, state="gone")
    with ledger.read() as tx:
        by_slot, by_uuid = nodes.one(tx, "kafka/broker/3"), nodes.one(tx, uuid)
    assert by_slot == by_uuid
    assert by_slot["spec"] == {"cpu": 2}
    assert [one["cid"] for one in by_slot["objects"]] == ["vm-1"]


@pytest.mark.parametrize("which", ["nobody", "kafka/broker/7", "a/b/c/d", "kafka/broker/99999999999"])
def test_an_unknown_node_is_not_found(ledger: Ledger, which: str) -> None:
    with ledger.read() as tx, pytest.raises(NotFound):
        nodes.one(tx, which)


def test_groups_count_members_and_name_their_users(ledger: Ledger) -> None:
    rows.group(ledger, "g1")
    rows.group(ledger, "g0", state="gone", created_at=1.0)
    rows.put(ledger, "instance_groups", id=1, deployment="kafka", name="broker")
    rows.put(ledger, "instance_groups", id=2, deployment="kafka", name="connect")
    for number in (2, 1):
        rows.put(ledger, "server_group_users", instance_group=number, server_group="g1")
    rows.node(ledger, "broker", 0, server_group="g1", host="h1")
    with ledger.read() as tx:
        shown = groups.page(tx, EVERYTHING).items
        gone = groups.page(tx, EVERYTHING, state="gone").items
        detail = groups.one(tx, "cg-g1")
    assert [(g["intent"], g["size"], g["instance_groups"]) for g in shown] == [("g1", 1, ["broker", "connect"])]
    assert [g["intent"] for g in gone] == ["g0"]
    assert detail["members"] == [
        {"uuid": "uuid-kafka-broker-0", "name": "broker/0", "az": "z1", "host": "h1", "vm_cid": None}
    ]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([], "deploy again, which makes"),
        ([(1.0, {"moves_members": True}), (2.0, {"moves_members": False})], "deploy again, which makes"),
        ([(1.0, {"moves_members": True}), (2.0, None)], "`coterie groups repair data`, or deploy again"),
    ],
)
def test_what_to_do_about_a_missing_group_depends_on_what_its_cloud_last_said_that_it_can(
    ledger: Ledger, answers: list[tuple[float, dict[str, bool] | None]], words: str
) -> None:
    rows.group(ledger, "g1")
    rows.group(ledger, "g2", state="missing")
    rows.group(ledger, "g3", drift=["its rule was removed"])
    for at, able in answers:
        said = {"data": None, "error": {"code": "x"}} if able is None else {"data": {"capabilities": able}}
        rows.put(ledger, "facts", cloud="lab", what=f"check:{at}", wanted_at=at, at=at, driver="x", **said)
    with ledger.read() as tx:
        told = {one["intent"]: one["remedy"] for one in groups.page(tx, EVERYTHING).items}
    assert (told["g1"], "groups show data" in told["g3"]) == ("", True)
    assert told["g2"].startswith(words)


def test_deployments_sum_up_their_nodes_and_name_the_running_task(ledger: Ledger) -> None:
    rows.deployment(ledger, "kafka")
    rows.deployment(ledger, "quiet")
    rows.node(ledger, "broker", 0)
    rows.node(ledger, "broker", 1, state="failing")
    rows.task(ledger, 1, state="done")
    rows.task(ledger, 2)
    with ledger.read() as tx:
        kafka, quiet = deployments.page(tx, EVERYTHING).items
        assert deployments.manifest(tx, "kafka") == "name: x\n"
        with pytest.raises(NotFound):
            deployments.manifest(tx, "nobody")
    assert kafka["nodes"] == {"failing": 1, "up": 1}
    assert (kafka["task"], quiet["task"], quiet["nodes"]) == (2, None, {})


def test_tasks_show_progress_stages_and_can_leave_a_kind_out(ledger: Ledger) -> None:
    rows.task(ledger, 1)
    rows.task(ledger, 2, kind="look", deployment=None, state="done")
    rows.stage(ledger, 1, 0, total=3, ended=2, failed=1)
    rows.stage(ledger, 1, 1, total=4)
    rows.step(ledger, 1, 1, state="failed")
    rows.step(ledger, 2, 1)
    with ledger.read() as tx:
        assert [t["id"] for t in tasks.page(tx, EVERYTHING, without="look").items] == [1]
        assert [t["id"] for t in tasks.unfinished(tx)] == [1]
        detail = tasks.one(tx, 1)
        failed = tasks.step_page(tx, 1, EVERYTHING, "failed").items
        assert tasks.state(tx, 2) == "done"
        with pytest.raises(NotFound):
            tasks.state(tx, 3)
    assert detail["steps"] == {"total": 7, "ended": 2, "failed": 1}
    assert [stage["n"] for stage in detail["stages"]] == [0, 1]
    assert [step["id"] for step in failed] == [1]


def test_a_ready_step_that_no_conductor_serves_is_shown_as_such(ledger: Ledger) -> None:
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1, conductor_group="site-a")
    with ledger.read() as tx:
        assert waiting.reasons(tx, 1) == ["1 ready: no conductor is alive"]
    rows.conductor(ledger, "c1")
    with ledger.read() as tx:
        assert waiting.reasons(tx, 1) == ["1 ready: no live conductor in group 'site-a' for driver sandbox"]
    rows.conductor(ledger, "c2", conductor_group="Site-A", flows=["another"])
    with ledger.read() as tx:
        assert "of a release that knows" in waiting.reasons(tx, 1)[0]
    rows.conductor(ledger, "c3", conductor_group="Site-A")
    with ledger.read() as tx:
        assert waiting.reasons(tx, 1) == []


def test_a_conductor_of_every_group_leaves_no_step_waiting(ledger: Ledger) -> None:
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1, conductor_group="site-a")
    rows.conductor(ledger, "c1", every_group=True)
    with ledger.read() as tx:
        assert waiting.reasons(tx, 1) == []


def test_a_resting_step_shows_its_reason(ledger: Ledger) -> None:
    rows.task(ledger, 1)
    rows.conductor(ledger, "c1")
    with ledger.read() as tx:
        now = time(tx)
    rows.step(ledger, 1, 1, not_before=now + 600, error={"code": "throttled", "why": "too many calls"})
    with ledger.read() as tx:
        (reason,) = waiting.reasons(tx, 1)
    assert reason.startswith("broker/1: too many calls; looks again in ")


def test_disks_are_attached_or_kept_never_gone(ledger: Ledger) -> None:
    uuid = rows.node(ledger, "broker", 0, vm_cid="vm-1")
    rows.cloud_object(ledger, "d1", node=uuid, ref="broker/0", size_mb=10)
    rows.cloud_object(ledger, "d2", state="kept", ref="broker/1")
    rows.cloud_object(ledger, "d3", state="gone")
    rows.cloud_object(ledger, "v1", kind="vm", node=uuid)
    with ledger.read() as tx:
        shown = objects.disks(tx, EVERYTHING).items
        kept = objects.disks(tx, EVERYTHING, state="kept").items
        everything = objects.page(tx, EVERYTHING).items
        with pytest.raises(NotFound):
            objects.disk(tx, "v1")
        assert objects.one(tx, "v1")["kind"] == "vm"
    assert [(d["intent"], d["vm_cid"]) for d in shown] == [("d1", "vm-1"), ("d2", None)]
    assert [d["intent"] for d in kept] == ["d2"]
    assert [o["intent"] for o in everything] == ["d1", "d2", "d3", "v1"]


def test_a_follower_of_one_task_gets_what_came_after(ledger: Ledger) -> None:
    for n in (1, 2, 3):
        rows.event(ledger, 7, n)
    rows.event(ledger, 8, 1)
    with ledger.read() as tx:
        assert [e["n"] for e in events.after(tx, 7, 1, 10)] == [2, 3]
        assert [e["n"] for e in events.of_task(tx, 7, Slice(2)).items] == [1, 2]
        assert [e["task"] for e in events.page(tx, EVERYTHING).items] == [8, 7, 7, 7]


def test_a_tail_gives_an_event_that_commits_late_although_its_id_is_lower(ledger: Ledger) -> None:
    with ledger.read() as tx:
        now = time(tx)
    rows.event(ledger, 1, 1, id=10, at=now)
    tail = events.Tail(5)
    with ledger.read() as tx:
        assert [e["id"] for e in tail.more(tx, 10)] == [10]
    rows.event(ledger, 2, 1, id=8, at=now)
    with ledger.read() as tx:
        assert [e["id"] for e in tail.more(tx, 10)] == [8]
        assert tail.more(tx, 10) == []


def test_a_tail_forgets_what_is_settled(ledger: Ledger) -> None:
    rows.event(ledger, 1, 1, id=10)
    tail = events.Tail(5)
    with ledger.read() as tx:
        tail.more(tx, 10)
        assert tail.remembered == 0
        assert tail.more(tx, 10) == []


def test_a_tail_reads_what_it_leaves_out_only_once(ledger: Ledger) -> None:
    with ledger.read() as tx:
        now = time(tx)
    for number in (10, 11, 12):
        rows.event(ledger, None, 0, id=number, kind="audit", at=now - 600)
    rows.event(ledger, None, 0, id=13, kind="audit", at=now - 40)
    tail = events.Tail(5, events.Filter(kind="node.up"))
    with ledger.read() as tx:
        assert tail.more(tx, 10) == []
        assert tail.floor == 12, "one before the youngest may still come in"
    rows.event(ledger, 1, 1, id=14, at=now)
    with ledger.read() as tx:
        assert [e["id"] for e in tail.more(tx, 10)] == [14]
        assert tail.more(tx, 10) == []


def test_a_tail_passes_nothing_over_that_it_has_not_read(ledger: Ledger) -> None:
    for number in (10, 11, 12):
        rows.event(ledger, 1, number, id=number)
    tail = events.Tail(5, events.Filter(kind="node.up"))
    with ledger.read() as tx:
        assert [[e["id"] for e in tail.more(tx, 2)] for _ in range(3)] == [[10, 11], [12], []]


def test_clouds_show_the_newest_fact_of_each_subject(ledger: Ledger) -> None:
    rows.put(ledger, "clouds", name="lab", driver="sandbox", properties={"account": "a"}, conductor_group="")
    rows.node(ledger, "broker", 0)
    for digest, at, data in (("new", 20.0, {"n": 2}), ("old", 10.0, {"n": 1}), ("none", None, None)):
        rows.put(
            ledger, "facts", cloud="lab", what=f"check:{digest}", wanted_at=1.0, at=at, data=data, driver="sandbox"
        )
    with ledger.read() as tx:
        detail = clouds.one(tx, "lab")
        with pytest.raises(NotFound):
            clouds.one(tx, "nowhere")
        with pytest.raises(NotFound):
            clouds.config(tx)
    assert detail["nodes"] == 1
    assert detail["facts"] == {"check": {"at": "1970-01-01T00:00:20.000Z", "data": {"n": 2}, "error": None}}


def test_the_newest_cloud_config_counts(ledger: Ledger) -> None:
    for number in (1, 2):
        rows.put(ledger, "cloud_configs", id=number, body=f"v{number}", hash="h", created_at=1.0)
    with ledger.read() as tx:
        assert (clouds.config(tx)["id"], clouds.config(tx)["text"]) == (2, "v2")


def test_stemcells_say_which_clouds_hold_an_image(ledger: Ledger) -> None:
    rows.put(ledger, "stemcells", name="debian-12", version="1.1", cloud_properties={}, formats=[], created_at=1.0)
    rows.cloud_object(ledger, "i1", kind="image", ref="debian-12/1.1")
    rows.cloud_object(ledger, "i2", kind="image", ref="debian-12/1.1", cloud="far", state="gone")
    with ledger.read() as tx:
        (shown,) = stemcells.page(tx, EVERYTHING).items
        with pytest.raises(NotFound):
            stemcells.one(tx, "debian-12", "9")
    assert (shown["light"], shown["clouds"]) == (True, ["lab"])


def test_conductors_show_their_silence_and_their_load(ledger: Ledger) -> None:
    rows.conductor(ledger, "c1")
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1, state="running", owner="c1#i")
    with ledger.read() as tx:
        (shown,) = conductors.page(tx, EVERYTHING).items
    assert shown["running"] == 1
    assert shown["silent_s"] > 1_000_000


def test_counts_by_state(ledger: Ledger) -> None:
    rows.node(ledger, "broker", 0)
    rows.node(ledger, "broker", 1)
    rows.cloud_object(ledger, "d1")
    rows.task(ledger, 1)
    rows.step(ledger, 1, 1)
    with ledger.read() as tx:
        assert counts.nodes_by_state(tx) == {("up",): 2}
        assert counts.objects_by_kind_and_state(tx) == {("disk", "live"): 1}
        assert counts.tasks_by_state(tx) == {("running",): 1}
        assert counts.steps_by_state(tx) == {("ready",): 1}


def test_replies_age(ledger: Ledger) -> None:
    with ledger.read() as tx:
        now = time(tx)
    for key, status, age in (("fresh", 202, 10), ("old", 202, 100), ("busy", 0, 10), ("stuck", 0, 60)):
        rows.put(ledger, "replies", key=key, request="r", status=status, body={"a": 1}, created_at=now - age)
    with ledger.write() as tx:
        replies.forget_old(tx, 90.0, 50.0)
        assert [key for key in ("fresh", "old", "busy", "stuck") if replies.get(tx, key)] == ["fresh", "busy"]
        assert replies.get(tx, "fresh") == ("r", 202, {"a": 1})
        assert replies.get(tx, "none") is None
