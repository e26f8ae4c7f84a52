"""Signatures of Directors on steps and questions, and their public keys. An addition."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "director_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("public", sa.Text(), nullable=False),
        sa.Column("required", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.add_column("steps", sa.Column("signature", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("facts", sa.Column("signature", sa.JSON(none_as_null=True), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        _show_keys(op.get_bind())


def _show_keys(tx: sa.Connection) -> None:
    """To roles of conductors that have rights already."""
    query = "SELECT DISTINCT quote_ident(rolname) FROM conductor_roles JOIN pg_roles ON rolname = role"
    for quoted in tx.exec_driver_sql(query).scalars().all():
        tx.exec_driver_sql(f"GRANT SELECT ON director_keys TO {quoted}".replace("%", "%%"))
