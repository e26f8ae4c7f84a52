"""Pins and alarms of clouds; what hooks have received; clocks. Additions only."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "cloud_pins",
        sa.Column("cloud", sa.Text(), primary_key=True),
        sa.Column("identity", sa.Text(), nullable=True),
        sa.Column("pinned_at", sa.Double(), nullable=False),
        sa.Column("token", sa.Text(), nullable=True),
        sa.Column("next_token", sa.Text(), nullable=True),
        sa.Column("token_at", sa.Double(), nullable=True),
    )
    op.create_table(
        "cloud_alarms",
        sa.Column("cloud", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), primary_key=True),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_table(
        "hooks",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("since", sa.Double(), nullable=False),
    )
    op.create_table(
        "clocks",
        sa.Column("boot", sa.Text(), primary_key=True),
        sa.Column("running_s", sa.Double(), nullable=False, server_default="0.0"),
        sa.Column("at", sa.Double(), nullable=False),
    )
    op.add_column("cleanups", sa.Column("received", sa.JSON(), nullable=True))
    op.add_column("cleanups", sa.Column("planned", sa.Integer(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        _separate_sites(op.get_bind())


def _separate_sites(tx: sa.Connection) -> None:
    """A conductor's role sees and changes pins and alarms of its own clouds only; roles of before get the rights."""
    own = "cloud = ANY ((SELECT coterie_clouds())::text[]) OR (SELECT coterie_serves_all())"
    roles = tx.exec_driver_sql(
        "SELECT DISTINCT quote_ident(r.rolname) FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a"
        " JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = 'steps'::regclass AND a.grantee <> c.relowner"
    ).scalars()
    names = list(roles)
    for table, rights in (("cloud_pins", "SELECT, INSERT, UPDATE"), ("cloud_alarms", "SELECT, INSERT, UPDATE, DELETE")):
        tx.exec_driver_sql(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        tx.exec_driver_sql(f"CREATE POLICY coterie_own ON {table} USING ({own}) WITH CHECK ({own})")
        for name in names:
            tx.exec_driver_sql(f"GRANT {rights} ON {table} TO {name}".replace("%", "%%"))
