"""Sealed secrets of machines, and whether a conductor can open them. Additions: sealing begins with a Director of this
release that is not pinned, which raises the floor."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "machine_secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("conductor_group", sa.Text(), nullable=False),
        sa.Column("deployment", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("wanted_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "conductor_group"),
    )
    op.create_index("machine_secrets_by_deployment", "machine_secrets", ["deployment"])
    op.add_column("conductors", sa.Column("opens_secrets", sa.Boolean(), server_default=sa.false(), nullable=False))
    if op.get_bind().dialect.name == "postgresql":
        _separate_sites(op.get_bind())


_STATEMENTS = (
    "ALTER TABLE machine_secrets ENABLE ROW LEVEL SECURITY",
    "CREATE POLICY coterie_see ON machine_secrets FOR SELECT USING "
    "(conductor_group = ANY ((SELECT coterie_groups())::text[]) OR (SELECT coterie_serves_all()))",
    # A conductor's role forgets a deployment by a function, and may not delete secrets.
    """CREATE FUNCTION coterie_forget_secrets() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog, public, pg_temp AS $$
    BEGIN
      DELETE FROM machine_secrets WHERE deployment = OLD.name;
      RETURN NULL;
    END $$""",
    "REVOKE ALL ON FUNCTION coterie_forget_secrets() FROM PUBLIC",
    "CREATE TRIGGER coterie_forget_secrets AFTER DELETE ON deployments "
    "FOR EACH ROW EXECUTE FUNCTION coterie_forget_secrets()",
)


def _separate_sites(tx: sa.Connection) -> None:
    for statement in _STATEMENTS:
        tx.exec_driver_sql(statement)
    # Roles of conductors that an earlier release granted rights to must be able to open secrets, too.
    old = tx.exec_driver_sql(
        "SELECT DISTINCT quote_ident(r.rolname) FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a"
        " JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = 'steps'::regclass AND a.grantee <> c.relowner"
    ).scalars()
    for role in old.all():
        tx.exec_driver_sql(f"GRANT SELECT ON machine_secrets TO {role}".replace("%", "%%"))
