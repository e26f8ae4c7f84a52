"""Cleanup: its runs, what they found, since when each object has been unused, and what they removed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    _runs()
    _findings()
    _marks()


def _runs() -> None:
    op.create_table(
        "cleanups",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("options", _JSON, nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=True),
        sa.Column("survey_task", _ID, nullable=True),
        sa.Column("sweep_task", _ID, nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("notified", sa.Text(), server_default="", nullable=False),
        sa.Column("notices", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "surveys",
        sa.Column("cleanup", _ID, autoincrement=False, nullable=False),
        sa.Column("cloud", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("calls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("pages", sa.Integer(), server_default="0", nullable=False),
        sa.Column("counts", _JSON, nullable=True),
        sa.Column("at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cleanup", "cloud", "kind"),
    )


def _findings() -> None:
    optional = ("cid", "name", "az", "etag", "intent", "deployment", "node", "ref", "ledger_state", "outcome")
    op.create_table(
        "findings",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("cleanup", _ID, nullable=False),
        *[sa.Column(name, sa.Text(), nullable=False) for name in ("cloud", "kind", "verdict", "action", "reason")],
        *[sa.Column(name, sa.Text(), nullable=True) for name in optional],
        *[sa.Column(name, sa.Double(), nullable=True) for name in ("created_at", "since", "ended_at")],
        *[sa.Column(name, _JSON, nullable=True) for name in ("evidence", "used_by", "told")],
        sa.Column("doomed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("findings_by_cleanup", "findings", ["cleanup", "id"])
    op.create_index("findings_by_outcome", "findings", ["outcome", "cloud", "kind"])


def _marks() -> None:
    op.create_table(
        "suspects",
        *[sa.Column(name, sa.Text(), nullable=False) for name in ("cloud", "kind", "cid")],
        sa.Column("intent", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=True),
        sa.Column("since", sa.Double(), nullable=False),
        sa.Column("doomed", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("pinned", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("cleanup", _ID, nullable=False),
        sa.PrimaryKeyConstraint("cloud", "kind", "cid"),
    )
    op.create_table(
        "sightings",
        sa.Column("cleanup", _ID, autoincrement=False, nullable=False),
        *[sa.Column(name, sa.Text(), nullable=False) for name in ("cloud", "kind", "intent")],
        sa.PrimaryKeyConstraint("cleanup", "cloud", "kind", "intent"),
    )
    op.create_table(
        "tallies",
        *[sa.Column(name, sa.Text(), nullable=False) for name in ("cloud", "kind")],
        sa.Column("cleaned", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("cloud", "kind"),
    )
