"""The Director may give a kept disk to a node; a conductor's role may not, as before. A trigger's function only."""

from alembic import op

revision = "0019"
down_revision = "0018"

_FUNCTION = """
CREATE OR REPLACE FUNCTION coterie_refuse_node() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'member') THEN
    RETURN NEW;
  END IF;
  RAISE insufficient_privilege USING MESSAGE = 'an object is not given to another node';
END $$
"""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.get_bind().exec_driver_sql(_FUNCTION)
