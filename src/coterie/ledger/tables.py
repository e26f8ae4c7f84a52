"""Every table, with what each state means. Times are seconds since 1970 by the database's own clock."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

_BigId = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _table(name: str, *parts: sa.schema.SchemaItem) -> sa.Table:
    return sa.Table(name, metadata, *parts)


def _key(name: str = "name") -> sa.Column[str]:
    return sa.Column(name, sa.Text, primary_key=True)


def _text(name: str, *, null: bool = False, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null, default=default, server_default=default)


def _number(name: str, default: int = 0) -> sa.Column[int]:
    return sa.Column(name, sa.Integer, nullable=False, default=default, server_default=str(default))


def _real(name: str, default: float) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False, default=default, server_default=str(default))


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, default=False, server_default=sa.false())


def _time(name: str, *, null: bool = True) -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=null)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=True)


# -- this Director, and what is configured --

# the oldest schema whose release may work on this one; raised by a migration that takes something away
schema_floor = _table("schema_floor", _key("oldest"))

directors = _table("directors", _key("uuid"), _text("name"), _time("created_at", null=False))

cloud_configs = _table(  # the newest is in force; a new id means that another was stored meanwhile
    "cloud_configs",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("body"),
    _text("hash"),
    _time("created_at", null=False),
)

clouds = _table(
    "clouds",
    _key(),
    _text("driver"),
    _json("properties"),
    _text("conductor_group", default=""),  # its work that is of no node runs here
    _json("other_groups"),  # conductor groups that its azs, instance groups and nodes may have, too; null: none
)

cloud_pins = _table(  # the account that a cloud was found to be while objects of ours were in it
    "cloud_pins",
    _key("cloud"),
    _text("identity", null=True),  # null: the cloud does not tell
    _time("pinned_at", null=False),
    _text("token", null=True),  # the last one that this ledger has written onto a VM of the cloud
    _text("next_token", null=True),  # the one that was or will be written after it
    _time("token_at"),
)

cloud_alarms = _table(  # while a cloud has one, nothing in it is recreated, resurrected or cleaned up
    "cloud_alarms",
    _key("cloud"),
    _key("kind"),  # what each one means stands in `rows/alarms.py`
    _time("since", null=False),
    _text("body"),
)

conductor_keys = _table(  # public halves; credentials of a group's clouds are sealed to the newest
    "conductor_keys",
    _key("conductor_group"),  # "*": of a conductor that stands in for every group without a key of its own
    _key("id"),
    _text("public"),
    _text("published_by"),
    _time("created_at", null=False),
)

director_keys = _table(  # public halves of the keys that Directors sign steps and questions with
    "director_keys",
    _key("id"),
    _text("public"),
    _flag("required"),  # in any row: what has no signature is refused
    _time("created_at", null=False),
)

# -- access --

# PostgreSQL only, written by `coterie conductors role`: the groups whose rows a conductor's database role sees and
# changes. "*": those of every group.
conductor_roles = _table("conductor_roles", _key("role"), _key("conductor_group"))

tokens = _table(
    "tokens",
    _key("id"),
    _text("name"),
    _text("hash"),  # of the secret half, which is stored nowhere
    _text("role"),  # admin, operator, viewer
    _json("teams"),  # null: not limited to teams
    _text("created_by"),
    _time("created_at", null=False),
    _time("expires_at", null=False),
    _time("revoked_at"),
)

ownerships = _table("ownerships", _key("deployment"), _text("team"))  # outlives the deployment, as its disks do

sessions = _table(  # of the web console; the browser holds the secret, the ledger its hash
    "sessions",
    _key("hash"),
    _text("kind"),  # session: a log-in. link: a log-in by one request, which ends it
    _json("caller"),
    _time("created_at", null=False),
    _time("expires_at", null=False),
)

stemcells = _table(  # the catalogue; what a cloud made of one is an object of kind image with `ref` name/version
    "stemcells",
    _key(),
    _key("version"),
    _text("os", null=True),
    _text("image", null=True),  # name of its file in the state folder of a service; null for a light stemcell
    _text("sha256", null=True),
    _json("cloud_properties"),
    _json("formats"),
    _time("created_at", null=False),
    sa.Column("image_size", sa.BigInteger, nullable=True),  # bytes in `stemcell_chunks`; null: it is not there
)

stemcell_chunks = _table(  # PostgreSQL only: images, for conductors on other machines
    "stemcell_chunks",
    _key("sha256"),  # of the whole image
    sa.Column("n", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    _time("stored_at", null=False),
)

# -- deployments --

deployments = _table(
    "deployments",
    _key(),
    _text("manifest"),
    _number("config_id"),
    _number("serial", 1),  # +1 with every accepted request
    _flag("resurrection"),
    _time("created_at", null=False),
    _time("updated_at", null=False),
)

manifests = _table(  # every one that was accepted, without secrets; the newest of each deployment are kept
    "manifests",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("deployment"),
    _text("body"),
    _text("requested_by", null=True),
    _time("created_at", null=False),
    sa.Index("manifests_by_deployment", "deployment", "id"),
)

instance_groups = _table(
    "instance_groups",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("deployment"),
    _text("name"),
    _text("conductor_group", null=True),  # null: that of each node's az
    sa.UniqueConstraint("deployment", "name"),
)

# state of a server group:
#   intended   the row exists, the create call was or will be made
#   live       the cloud answered (on clouds that only reserve: reserved)
#   missing    the cloud does not have it, although we did not delete it
#   deleting   no VM of ours is in it any more, the delete call was or will be made
#   gone       deleted
server_groups = _table(
    "server_groups",
    _key("intent"),
    _text("deployment"),
    _text("name"),
    _text("cloud"),
    _text("cid", null=True),
    _text("policy", null=True),
    _json("metadata"),
    _text("state"),
    _flag("adopted"),
    _json("drift"),  # of a live one: sentences on how it differs from what was made; null: it does not
    _time("created_at", null=False),
    _time("ended_at"),
    sa.Index("server_groups_by_deployment", "deployment", "name", "cloud"),
)

server_group_users = _table(
    "server_group_users",
    sa.Column("instance_group", _BigId, primary_key=True),
    sa.Column("server_group", sa.Text, primary_key=True),
)

# state of a node:
#   planned    wanted, nothing made yet
#   changing   a step works on it
#   up         its VM runs and its health check passes
#   failing    its last step failed, or its health check does; `problem` says why
#   dead       its VM is in the cloud but does not run
#   missing    its VM is not in the cloud
#   stopped    it has no VM, on request; it keeps its disk and its addresses, and is made again when it is started
#   deleting   it is being removed
nodes = _table(
    "nodes",
    _key("uuid"),
    _text("deployment"),
    _text("instance_group"),
    _number("index"),
    _text("az"),
    _text("cloud"),
    _text("conductor_group", null=True),  # its own; null: inherited
    _text("inherited_group", null=True),  # conductor group of its instance group, else of its az; null: its cloud's
    _text("state"),
    _json("spec"),  # as its VM was made; null before the first one
    _text("vm_intent", null=True),
    _text("vm_cid", null=True),
    _text("server_group", null=True),  # intent of the server group that its VM is in
    _text("host", null=True),
    _json("addresses"),
    _json("problem"),
    _time("created_at", null=False),
    _time("updated_at", null=False),
    _flag("enrolled"),  # not created by us: of no deployment (""), its name is its instance group
    sa.UniqueConstraint("deployment", "instance_group", "index"),
    sa.Index("nodes_by_cloud", "cloud", "conductor_group"),
)

addresses = _table("addresses", _key("network"), _key("ip"), _text("node"), _text("deployment"))
sa.Index("addresses_by_node", addresses.c.node)

machine_secrets = _table(  # `env` and `user_data` of instance groups; the specs of nodes and steps hold the name
    "machine_secrets",
    _key("name"),  # a slow hash of the content: other content has another name
    _key("conductor_group"),
    _text("deployment"),
    _text("key_id"),
    _text("sealed"),
    _time("wanted_at", null=False),  # by the last request that was accepted
    sa.Index("machine_secrets_by_deployment", "deployment"),
)

# -- the memory of every cloud object --

# state of an object:
#   intended   committed before the cloud is called; nothing or something may be there
#   live       the cloud answered with `cid`
#   unknown    the call timed out or its process died; find(kind, mark) settles it
#   kept       a disk that no node uses any more, held for the undo window; with a node: attached to its VM until that
#              has been given another one
#   deleting   the delete call was or will be made
#   gone       certainly not there; with `tombstone`: never found, so an object with this mark is an orphan
objects = _table(
    "objects",
    _key("intent"),
    _text("kind"),
    _text("cloud"),
    _text("az", null=True),
    _text("state"),
    _text("cid", null=True),
    _text("deployment", null=True),
    _text("node", null=True),
    _text("ref", null=True),  # what it is to us: "broker/0", "debian-12/1.1"
    _number("size_mb"),
    _json("properties"),
    _flag("tombstone"),
    _time("created_at", null=False),
    _time("doubt_since"),
    _time("ended_at"),
    _time("late_at"),  # when the object of a tombstone was seen in the cloud all the same
    _text("director", null=True),  # the BOSH caller that it belongs to; null: this Director
    _text("server_group", null=True),  # CID of the group that a VM was made for, in such a ledger
    sa.Index("objects_by_cloud", "cloud", "kind", "state"),
    sa.Index("objects_by_node", "node"),
    sa.Index("objects_by_deployment", "deployment", "kind"),
    sa.Index("objects_by_ref", "ref"),
    sa.Index("objects_by_cid", "cid"),
    sa.Index("objects_by_server_group", "server_group"),
)

facts = _table(  # answers of clouds, dated; `wanted_at` > `at`: a conductor must look again
    "facts",
    _key("cloud"),
    _key("what"),
    _text("driver"),
    _text("conductor_group", default=""),
    _json("properties"),  # of a cloud that is not configured yet; forgotten with the answer
    _json("question"),
    _time("wanted_at", null=False),
    _time("at"),
    _json("data"),
    _json("error"),
    _text("holder", null=True),
    _time("held_until"),
    _json("signature"),
)

# -- work --

# state of a task: running · cancelling (no new step starts) · done · failed · cancelled
tasks = _table(
    "tasks",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("kind"),
    _text("deployment", null=True),
    _text("state"),
    _json("plan"),
    _text("requested_by", null=True),
    _number("events"),
    _time("created_at", null=False),
    _time("ended_at"),
    _json("report"),
    sa.Index("tasks_by_state", "state"),
    sa.Index("tasks_by_deployment", "deployment", "id"),
)

# state of a stage: blocked (its needs are open) · open · done · failed (a step failed) · skipped
stages = _table(
    "stages",
    sa.Column("task", _BigId, primary_key=True),
    sa.Column("n", sa.Integer, primary_key=True),
    _text("name"),
    _text("state"),
    _number("max_in_flight"),
    _flag("stop_on_failure"),
    _json("needs"),
    _number("total"),
    _number("admitted"),
    _number("ended"),
    _number("failed"),
)

# state of a step:
#   queued     its stage has not admitted it yet
#   ready      may be claimed once `not_before` has passed
#   running    claimed by `owner` at `epoch`
#   done, failed, skipped (its stage stopped, or what failed elsewhere stands before it), cancelled
steps = _table(
    "steps",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    sa.Column("task", _BigId, nullable=False),
    _number("stage"),
    _text("flow"),
    _text("label"),
    _text("subject"),
    _text("node", null=True),
    _text("cloud", null=True),
    _text("driver", null=True),
    _text("conductor_group", default=""),
    _text("state"),
    _text("owner", null=True),
    _number("epoch"),
    _number("attempt"),
    _time("not_before", null=False),
    _time("deadline"),
    _json("data"),
    _json("error"),
    _time("started_at"),
    _time("ended_at"),
    _json("signature"),  # of a Director, on what the step is to do; null: of a release that did not sign
    sa.Index("steps_to_claim", "state", "id"),
    sa.Index("steps_by_stage", "task", "stage", "state", "id"),
    sa.Index("steps_by_owner", "owner", "state"),
)

task_groups = _table(  # PostgreSQL only, filled by a trigger: the conductor groups that have steps in a task
    "task_groups", sa.Column("task", _BigId, primary_key=True, autoincrement=False), _key("conductor_group")
)

lent_steps = (
    _table(  # PostgreSQL only, by the same trigger: sent to another group while a conductor of this one ran them
        "lent_steps",
        sa.Column("step", _BigId, primary_key=True, autoincrement=False),
        sa.Column("task", _BigId, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),  # of the claim that the old group may still commit
        _text("conductor_group"),
    )
)

events = _table(
    "events",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    sa.Column("task", _BigId, nullable=True),
    _number("n"),  # 1, 2, 3 … within the task, in commit order
    _time("at", null=False),
    _text("kind"),
    _text("subject"),
    _text("body"),
    _json("data"),
    sa.Index("events_by_task", "task", "n"),
)

conductors = _table(
    "conductors",
    _key(),
    _text("incarnation"),
    _text("conductor_group", default=""),
    _json("drivers"),
    _text("release"),
    _time("started_at", null=False),
    _time("heartbeat", null=False),
    _text("speaks", null=True),  # the release it behaves as, while pinned; null: its own
    _flag("every_group"),  # stands in wherever a group has no conductor of its own
    _flag("draining"),  # takes nothing new
    _real("weight", 1.0),
    _real("ttl_s", 10.0),  # given up after so much silence
    _text("ring", default="probed"),
    _json("flows"),  # that its release can run; null: unknown
    _flag("opens_secrets"),  # its release makes machines from sealed secrets
)

# -- single-writer domains --

domains = _table(  # `cloud`: whose conductors may hold it; null: a hold of a cleanup
    "domains",
    _key("domain"),
    _text("holder", null=True),
    _number("epoch"),
    _time("expires"),
    _text("cloud", null=True),
)

changes = _table(  # state: waiting · applied · failed; outcome is what the driver answered
    "changes",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("domain"),
    _json("body"),
    _text("state"),
    _json("outcome"),
    _time("created_at", null=False),
    _text("cloud", null=True),
    sa.Index("changes_by_domain", "domain", "state", "id"),
)

replies = _table(  # what a POST with this Idempotency-Key was answered
    "replies", _key("key"), _text("request"), _number("status"), _json("body"), _time("created_at", null=False)
)

# -- cleanup: what surveys found, since when, and what became of it --

cleanups = _table(  # one run: a survey, and at most one sweep of the plan that came of it
    "cleanups",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _json("options"),
    _text("requested_by", null=True),
    sa.Column("survey_task", _BigId, nullable=True),
    sa.Column("sweep_task", _BigId, nullable=True),
    _time("created_at", null=False),
    _text("notified", default=""),  # the last state that the hook received: "", planned, swept
    _number("notices"),  # tries of the notice that is due
    _json("received"),  # hook → the last state that it received; null: `notified` says it for all hooks
    sa.Column("planned", sa.Integer, nullable=True),  # items of the plan, when it was first announced or applied
)

hooks = _table("hooks", _key(), _text("digest"), _time("since", null=False))  # what is configured, and since when

clocks = _table(  # how the database's clock and that of a running machine went on together
    "clocks", _key("boot"), _real("running_s", 0.0), _time("at", null=False)
)

# state of a survey of one kind: listing · done · stopped (nothing is concluded; `reason`) · absent (never made there)
# · unlisted (the driver cannot list; `reason`)
surveys = _table(
    "surveys",
    sa.Column("cleanup", _BigId, primary_key=True),
    _key("cloud"),
    _key("kind"),
    _text("state"),
    _text("reason", null=True),
    _number("calls"),
    _number("pages"),
    _json("counts"),  # verdict → how many
    _time("at"),
)

findings = _table(  # everything that is neither in use nor foreign; those two are only counted
    "findings",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    sa.Column("cleanup", _BigId, nullable=False),
    _text("cloud"),
    _text("kind"),
    _text("cid", null=True),
    _text("name", null=True),
    _text("az", null=True),
    _time("created_at"),  # by the cloud's clock
    _text("etag", null=True),
    _text("intent", null=True),
    _text("deployment", null=True),
    _text("node", null=True),
    _text("ref", null=True),
    _text("ledger_state", null=True),
    _text("verdict"),
    _text("action"),
    _text("reason"),
    _json("evidence"),
    _json("used_by"),
    _time("since"),  # marked as unused since then, by our clock
    _flag("doomed"),  # `since` counts for the undo window
    _text("outcome", null=True),  # null · deleted · gone · retired · reclaimed · closed · skipped · failed
    _json("told"),
    _time("ended_at"),
    sa.Index("findings_by_cleanup", "cleanup", "id"),
    sa.Index("findings_by_outcome", "outcome", "cloud", "kind"),
)

suspects = _table(  # the mark before the sweep: since when each object has been seen unused, without a break
    "suspects",
    _key("cloud"),
    _key("kind"),
    _key("cid"),
    _text("intent", null=True),
    _time("created_at"),
    _time("since", null=False),
    _flag("doomed"),
    _flag("pinned"),  # undo has saved it: never deleted by a cleanup
    sa.Column("cleanup", _BigId, nullable=False),  # the last survey that saw it
)

sightings = _table(  # recorded objects that a survey under way has seen; dropped at its end
    "sightings",
    sa.Column("cleanup", _BigId, primary_key=True),
    _key("cloud"),
    _key("kind"),
    _key("intent"),
)

tallies = _table("tallies", _key("cloud"), _key("kind"), _number("cleaned"))  # of runs that are forgotten

parts = _table(  # what was created beside an object under its mark; rows stay when it is gone
    "parts",
    sa.Column("id", _BigId, primary_key=True, autoincrement=True),
    _text("cloud"),
    _text("intent"),
    _text("kind"),
    _text("name"),
    _text("cid", null=True),  # null: the call that creates it is under way, or its end is not known
    _time("created_at", null=False),
    sa.Index("parts_by_intent", "intent"),
)

# -- callers without our Director --

leases = _table("leases", _key("key"), _text("holder"), _time("expires", null=False))  # work under way, by lease

# Which group stands for an env.bosh.group; its life is an object of kind server_group.
# state: intended (its holder creates it) · live · deleting (its holder removes it)
bosh_groups = _table(
    "bosh_groups",
    _key("cloud"),
    _key("director"),
    _key("name"),
    _text("intent"),
    _text("cid", null=True),
    _text("state"),
    _text("holder"),
    _time("expires", null=False),
)

registry_settings = _table(  # settings that an agent of api_version 1 reads
    "registry_settings", _key("instance"), _text("settings"), _time("updated_at", null=False)
)
