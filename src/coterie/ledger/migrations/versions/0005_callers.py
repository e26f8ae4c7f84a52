"""What `coterie-cpi` remembers for callers without our Director: whose an object is, leases, groups, registry."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("objects", sa.Column("director", sa.Text(), nullable=True))
    op.add_column("objects", sa.Column("server_group", sa.Text(), nullable=True))
    op.create_index("objects_by_ref", "objects", ["ref"])
    op.create_index("objects_by_cid", "objects", ["cid"])
    op.create_index("objects_by_server_group", "objects", ["server_group"])
    op.create_table(
        "leases",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    op.create_table(
        "bosh_groups",
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("director", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("cid", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("expires", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("cloud", "director", "name"),
    )
    op.create_table(
        "registry_settings",
        sa.Column("instance", sa.Text(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("instance"),
    )
