"""A conductor's role may record that it refused a question of its site. A policy only."""

from alembic import op

revision = "0016"
down_revision = "0015"

# The sub-select sees what the role sees of `facts`.
_ADDED = (
    "kind <> 'audit' AND coterie_takes_part(task) OR task IS NULL AND kind = 'question.refused'"
    " AND EXISTS (SELECT 1 FROM facts f WHERE f.cloud = events.subject)"
)


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.get_bind().exec_driver_sql(f"ALTER POLICY coterie_add ON events WITH CHECK ({_ADDED})")
