"""Images of stemcells in the database, in chunks, so that every conductor can fetch them. An addition."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "stemcell_chunks",
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("sha256", "n"),
    )
    op.add_column("stemcells", sa.Column("image_size", sa.BigInteger(), nullable=True))
    if op.get_bind().dialect.name == "postgresql":
        _separate_sites(op.get_bind())


_STATEMENTS = (
    # Images are compressed mostly: PostgreSQL need not try again.
    "ALTER TABLE stemcell_chunks ALTER COLUMN data SET STORAGE EXTERNAL",
    "ALTER TABLE stemcell_chunks ENABLE ROW LEVEL SECURITY",
    # A role reads the images that a step of its site uploads now. It cannot change what decides that.
    """CREATE POLICY coterie_see ON stemcell_chunks FOR SELECT USING (sha256 IN (
      SELECT c.sha256 FROM steps s JOIN stemcells c ON s.subject = c.name || '/' || c.version || '@' || s.cloud
      WHERE s.state = 'running' AND s.flow = 'stemcell.upload'))""",
)


def _separate_sites(tx: sa.Connection) -> None:
    for statement in _STATEMENTS:
        tx.exec_driver_sql(statement)
    old = tx.exec_driver_sql(
        "SELECT DISTINCT quote_ident(rolname) FROM conductor_roles JOIN pg_roles ON rolname = role"
    )
    for role in old.scalars().all():
        tx.exec_driver_sql(f"GRANT SELECT ON stemcell_chunks TO {role}".replace("%", "%%"))
