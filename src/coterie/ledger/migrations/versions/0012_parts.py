"""Parts: the ids of what was created beside an object under its mark. An addition. A conductor's role sees and adds
those in clouds of its conductor groups, as with objects."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_OWN_CLOUDS = "cloud = ANY ((SELECT coterie_clouds())::text[]) OR (SELECT coterie_serves_all())"


def upgrade() -> None:
    op.create_table(
        "parts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("intent", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cid", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
    )
    op.create_index("parts_by_intent", "parts", ["intent"])
    if op.get_bind().dialect.name != "postgresql":
        return
    for statement in (
        "ALTER TABLE parts ENABLE ROW LEVEL SECURITY",
        f"CREATE POLICY coterie_see ON parts FOR SELECT USING ({_OWN_CLOUDS})",
        f"CREATE POLICY coterie_change ON parts FOR UPDATE USING ({_OWN_CLOUDS}) WITH CHECK (true)",
        f"CREATE POLICY coterie_remove ON parts FOR DELETE USING ({_OWN_CLOUDS})",
        f"CREATE POLICY coterie_add ON parts FOR INSERT WITH CHECK ({_OWN_CLOUDS})",
    ):
        op.execute(statement)
    _keep_old_roles(op.get_bind())


def _keep_old_roles(tx: sa.Connection) -> None:
    """Conductors whose role was granted its rights by an earlier release must work on."""
    old = tx.exec_driver_sql(
        "SELECT DISTINCT quote_ident(r.rolname) FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a"
        " JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = 'objects'::regclass AND a.grantee <> c.relowner"
    )
    for role in old.scalars().all():
        tx.exec_driver_sql(f"GRANT SELECT, INSERT, DELETE, UPDATE (cid) ON parts TO {role}".replace("%", "%%"))
        tx.exec_driver_sql(f"GRANT USAGE ON SEQUENCE parts_id_seq TO {role}".replace("%", "%%"))
