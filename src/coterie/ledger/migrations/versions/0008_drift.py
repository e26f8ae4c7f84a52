"""How a server group differs from what was made, as the last look saw it. An addition."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("server_groups", sa.Column("drift", sa.JSON(none_as_null=True), nullable=True))
