"""When an object was seen whose creation had been given up. An addition."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("objects", sa.Column("late_at", sa.Double(), nullable=True))
