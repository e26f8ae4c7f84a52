"""Sessions of the web console, and the history of manifests."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("caller", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "manifests",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("manifests_by_deployment", "manifests", ["deployment", "id"])
