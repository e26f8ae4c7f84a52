"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "addresses",
        sa.Column("network", sa.Text(), nullable=False),
        sa.Column("ip", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("network", "ip"),
    )
    op.create_index("addresses_by_node", "addresses", ["node"], unique=False)
    op.create_table(
        "changes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("changes_by_domain", "changes", ["domain", "state", "id"], unique=False)
    op.create_table(
        "cloud_configs",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "clouds",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("properties", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("conductor_group", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "conductors",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("conductor_group", sa.Text(), server_default="", nullable=False),
        sa.Column("drivers", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("release", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("heartbeat", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "deployments",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("config_id", sa.Integer(), server_default="0", nullable=False),
        sa.Column("serial", sa.Integer(), server_default="1", nullable=False),
        sa.Column("resurrection", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "directors",
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("uuid"),
    )
    op.create_table(
        "domains",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("expires", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("domain"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("n", sa.Integer(), server_default="0", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("events_by_task", "events", ["task", "n"], unique=False)
    op.create_table(
        "facts",
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("driver", sa.Text(), nullable=False),
        sa.Column("conductor_group", sa.Text(), server_default="", nullable=False),
        sa.Column("properties", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("question", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("wanted_at", sa.Double(), nullable=False),
        sa.Column("at", sa.Double(), nullable=True),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("held_until", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cloud", "what"),
    )
    op.create_table(
        "instance_groups",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("deployment", "name"),
    )
    op.create_table(
        "nodes",
        sa.Column("uuid", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("instance_group", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), server_default="0", nullable=False),
        sa.Column("az", sa.Text(), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("conductor_group", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("vm_intent", sa.Text(), nullable=True),
        sa.Column("vm_cid", sa.Text(), nullable=True),
        sa.Column("server_group", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("addresses", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("problem", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("uuid"),
        sa.UniqueConstraint("deployment", "instance_group", "index"),
    )
    op.create_table(
        "objects",
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("az", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("cid", sa.Text(), nullable=True),
        sa.Column("deployment", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("ref", sa.Text(), nullable=True),
        sa.Column("size_mb", sa.Integer(), server_default="0", nullable=False),
        sa.Column("properties", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("tombstone", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("doubt_since", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("intent"),
    )
    op.create_index("objects_by_cloud", "objects", ["cloud", "kind", "state"], unique=False)
    op.create_index("objects_by_deployment", "objects", ["deployment", "kind"], unique=False)
    op.create_index("objects_by_node", "objects", ["node"], unique=False)
    op.create_table(
        "server_group_users",
        sa.Column("instance_group", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("server_group", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("instance_group", "server_group"),
    )
    op.create_table(
        "server_groups",
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("cid", sa.Text(), nullable=True),
        sa.Column("policy", sa.Text(), nullable=True),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("adopted", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("intent"),
    )
    op.create_index("server_groups_by_deployment", "server_groups", ["deployment", "name", "cloud"], unique=False)
    op.create_table(
        "stages",
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("max_in_flight", sa.Integer(), server_default="0", nullable=False),
        sa.Column("stop_on_failure", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("needs", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("total", sa.Integer(), server_default="0", nullable=False),
        sa.Column("admitted", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ended", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failed", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("task", "n"),
    )
    op.create_table(
        "stemcells",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("os", sa.Text(), nullable=True),
        sa.Column("image", sa.Text(), nullable=True),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.Column("cloud_properties", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("formats", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version"),
    )
    op.create_table(
        "steps",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("stage", sa.Integer(), server_default="0", nullable=False),
        sa.Column("flow", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("cloud", sa.Text(), nullable=True),
        sa.Column("driver", sa.Text(), nullable=True),
        sa.Column("conductor_group", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("epoch", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("not_before", sa.Double(), nullable=False),
        sa.Column("deadline", sa.Double(), nullable=True),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("error", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("steps_by_owner", "steps", ["owner", "state"], unique=False)
    op.create_index("steps_by_stage", "steps", ["task", "stage", "state", "id"], unique=False)
    op.create_index("steps_to_claim", "steps", ["state", "id"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("plan", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=True),
        sa.Column("events", sa.Integer(), server_default="0", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tasks_by_deployment", "tasks", ["deployment", "id"], unique=False)
    op.create_index("tasks_by_state", "tasks", ["state"], unique=False)
