"""Conductor groups of instance groups and azs, and further ones of clouds. Additions."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("clouds", sa.Column("other_groups", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("nodes", sa.Column("inherited_group", sa.Text(), nullable=True))
    op.add_column("instance_groups", sa.Column("conductor_group", sa.Text(), nullable=True))
