"""Enrolled nodes; and which releases may work on a schema that they do not know. Both are additions."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("nodes", sa.Column("enrolled", sa.Boolean(), server_default=sa.false(), nullable=False))
    floor = op.create_table("schema_floor", sa.Column("oldest", sa.Text(), nullable=False, primary_key=True))
    op.bulk_insert(floor, [{"oldest": "0001"}])
