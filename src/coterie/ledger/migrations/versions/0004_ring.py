"""What rings need to know of a conductor. Every column has a default: a release that does not know it goes on."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for column in (
        sa.Column("speaks", sa.Text(), nullable=True),
        sa.Column("every_group", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("draining", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("weight", sa.Double(), server_default="1.0", nullable=False),
        sa.Column("ttl_s", sa.Double(), server_default="10.0", nullable=False),
        sa.Column("ring", sa.Text(), server_default="probed", nullable=False),
        sa.Column("flows", sa.JSON(none_as_null=True), nullable=True),
    ):
        op.add_column("conductors", column)
