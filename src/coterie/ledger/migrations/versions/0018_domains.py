"""A role takes no lease on a deployment in the name of a cloud of its own, and adds no change to a domain of another
site's cloud. Policies only."""

from alembic import op

revision = "0018"
down_revision = "0017"

# A domain is `CLOUD/…` or `WORD:CLOUD/…`, unless several clouds share it; `hold:…` is of no cloud.
_MAY_HOLD = """
CREATE OR REPLACE FUNCTION coterie_may_hold(domain text, cloud text) RETURNS boolean LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE mine text[] := coterie_clouds();
DECLARE inner_part text := regexp_replace(domain, '^[a-z0-9_-]+:', '');
BEGIN
  RETURN cloud = ANY (mine) AND NOT starts_with(domain, 'hold:') AND NOT EXISTS (
    SELECT 1 FROM clouds c WHERE c.name <> ALL (mine)
    AND (starts_with(domain || '/', c.name || '/') OR starts_with(inner_part || '/', c.name || '/')));
END $$
"""
_ADDED = "coterie_may_hold(domain, cloud) OR (SELECT coterie_serves_all())"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.get_bind().exec_driver_sql(_MAY_HOLD)
        op.get_bind().exec_driver_sql(f"ALTER POLICY coterie_add ON changes WITH CHECK ({_ADDED})")
