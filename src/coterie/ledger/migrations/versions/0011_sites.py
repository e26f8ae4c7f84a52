"""Sites are separated: which conductor groups a database role works for, and policies that show it only their rows.

PostgreSQL only, but for the columns and tables. The Director's role owns the tables: policies do not bind it. A role
that an earlier release granted rights to goes on as before, until `coterie conductors role` is run again for it.
"""

from typing import NamedTuple

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

# Sub-selects, so that each function is called once for a statement, and not at all where the first term holds.
_ALL = "(SELECT coterie_serves_all())"
_GROUP = "conductor_group = ANY ((SELECT coterie_groups())::text[])"
_CLOUD = "cloud = ANY ((SELECT coterie_clouds())::text[])"
_HOLD = (
    "cloud IS NULL AND starts_with(domain, 'hold:') AND (NOT starts_with(domain, 'hold:deployment ')"
    " OR coterie_has_deployment(substr(domain, 17)))"
)
_NODE = (
    "EXISTS (SELECT 1 FROM nodes n WHERE n.uuid = {table}.node AND {more})"  # of the own clouds: nodes have a policy
)
_THEIR_OBJECT = "EXISTS (SELECT 1 FROM objects o WHERE o.node = addresses.node)"  # the same
# A role of one site can register no conductor that serves every group, nor one that makes the fleet ignore groups.
_CONDUCTOR = f"{_GROUP} AND NOT every_group AND coalesce(speaks, release) ~ '^(0*[1-9]|0+[.]0*[1-9])' OR {_ALL}"
_ALIVE = "heartbeat >= extract(epoch from clock_timestamp()) - ttl_s"
# An object that a conductor adds belongs to a node of the same cloud, or to a deployment that has something there.
_NEW_OBJECT = (
    f"{_CLOUD} AND CASE WHEN node IS NOT NULL"
    f" THEN {_NODE.format(table='objects', more='n.cloud = objects.cloud AND n.deployment = objects.deployment')}"
    f" ELSE deployment IS NULL OR coterie_has_deployment(deployment) END OR {_ALL}"
)


class _Policy(NamedTuple):
    """Which rows are seen; changed and removed (None: those that are seen); added (None: the same); and what a changed
    row must be. A conductor's role has no right to change the columns that its rows are known by, so any will do."""

    seen: str
    changed: str | None = None
    added: str | None = None
    becomes: str = "true"


_POLICIES = {
    "conductor_roles": _Policy(
        "role IN (SELECT p.rolname::text FROM pg_roles p WHERE pg_has_role(session_user, p.oid, 'member'))"
    ),
    "clouds": _Policy(f"name = ANY ((SELECT coterie_clouds())::text[]) OR {_ALL}"),
    "facts": _Policy(f"{_GROUP} OR {_ALL}"),
    "steps": _Policy(f"{_GROUP} OR {_ALL} OR state = 'running' AND coterie_is_lent(id, epoch)"),
    "stages": _Policy("coterie_takes_part(task)"),
    "tasks": _Policy(
        "coterie_takes_part(id) OR deployment IS NOT NULL AND coterie_has_deployment(deployment)",
        "coterie_takes_part(id)",
    ),
    "events": _Policy("coterie_takes_part(task)", added="kind <> 'audit' AND coterie_takes_part(task)"),
    "deployments": _Policy(f"coterie_has_deployment(name) OR {_ALL}"),
    "instance_groups": _Policy(_ALL),
    "server_group_users": _Policy(
        f"EXISTS (SELECT 1 FROM server_groups g WHERE g.intent = server_group_users.server_group) OR {_ALL}"
    ),
    "addresses": _Policy(f"{_NODE.format(table='addresses', more='true')} OR {_THEIR_OBJECT} OR {_ALL}"),
    "conductors": _Policy(f"{_GROUP} OR {_ALIVE} OR {_ALL}", _CONDUCTOR),
    "domains": _Policy(
        f"{_CLOUD} OR cloud IS NULL OR {_ALL}",
        added=f"coterie_may_hold(domain, cloud) OR {_HOLD} OR {_ALL}",
        becomes=f"coterie_may_hold(domain, cloud) OR {_HOLD} OR {_ALL}",
    ),
    "objects": _Policy(f"{_CLOUD} OR {_ALL}", added=_NEW_OBJECT),
    **dict.fromkeys(
        ("server_groups", "nodes", "changes", "surveys", "findings", "suspects", "sightings"),
        _Policy(f"{_CLOUD} OR {_ALL}"),
    ),
}

_FUNCTIONS = """
CREATE FUNCTION coterie_groups() RETURNS text[] LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE mine text[] := ARRAY(SELECT r.conductor_group FROM conductor_roles r WHERE r.role = session_user);
BEGIN
  IF mine <> '{}' THEN
    RETURN mine;
  END IF;
  RETURN ARRAY(SELECT r.conductor_group FROM conductor_roles r JOIN pg_roles p ON p.rolname = r.role
               WHERE pg_has_role(session_user, p.oid, 'member'));
END $$;

CREATE FUNCTION coterie_serves_all() RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN '*' = ANY (coterie_groups());
END $$;

CREATE FUNCTION coterie_clouds() RETURNS text[] LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp SET plan_cache_mode = force_generic_plan AS $$
DECLARE mine text[] := coterie_groups();
BEGIN
  -- LIMIT: one probe of an index for each cloud, however many nodes there are
  RETURN ARRAY(SELECT c.name FROM clouds c WHERE c.conductor_group = ANY (mine)
      OR c.other_groups IS NOT NULL AND c.other_groups::jsonb ?| mine
    UNION SELECT c.name FROM clouds c CROSS JOIN LATERAL
      (SELECT 1 FROM nodes n WHERE n.cloud = c.name AND n.conductor_group = ANY (mine) LIMIT 1) worked_on
    UNION SELECT c.name FROM clouds c CROSS JOIN LATERAL
      (SELECT 1 FROM facts f WHERE f.cloud = c.name AND f.conductor_group = ANY (mine)
       AND (f.at IS NULL OR f.at < f.wanted_at) LIMIT 1) asked_about
    UNION SELECT s.cloud FROM lent_steps l JOIN steps s ON s.id = l.step AND s.epoch = l.epoch
      AND s.state = 'running' WHERE l.conductor_group = ANY (mine));
END $$;

CREATE FUNCTION coterie_is_lent(wanted bigint, wanted_epoch integer) RETURNS boolean LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT 1 FROM lent_steps l WHERE l.step = wanted AND l.epoch = wanted_epoch
                 AND l.conductor_group = ANY (coterie_groups()));
END $$;

CREATE FUNCTION coterie_has_deployment(wanted text) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE mine text[] := coterie_clouds();
BEGIN
  RETURN EXISTS (SELECT 1 FROM server_groups g WHERE g.deployment = wanted AND g.cloud = ANY (mine))
    OR EXISTS (SELECT 1 FROM nodes n WHERE n.deployment = wanted AND n.cloud = ANY (mine))
    OR EXISTS (SELECT 1 FROM objects o WHERE o.deployment = wanted AND o.cloud = ANY (mine));
END $$;

CREATE FUNCTION coterie_may_hold(domain text, cloud text) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE named text := split_part(regexp_replace(domain, '^[a-z0-9_-]+:', ''), '/', 1);
BEGIN
  RETURN cloud = ANY (coterie_clouds()) AND (named = cloud OR NOT EXISTS (SELECT 1 FROM clouds c WHERE c.name = named));
END $$;

CREATE FUNCTION coterie_takes_part(wanted bigint) RETURNS boolean LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE mine text[] := coterie_groups();
BEGIN
  RETURN wanted IS NOT NULL AND ('*' = ANY (mine)
    OR EXISTS (SELECT 1 FROM task_groups g WHERE g.task = wanted AND g.conductor_group = ANY (mine)));
END $$;

CREATE FUNCTION coterie_require_part(wanted bigint) RETURNS void LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  IF NOT pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = 'public.tasks'::regclass), 'member')
     AND NOT coterie_takes_part(wanted)
  THEN
    RAISE insufficient_privilege USING MESSAGE = 'this role takes no part in task ' || wanted;
  END IF;
END $$;

CREATE FUNCTION coterie_admit_steps(wanted bigint, wanted_stage integer, room bigint)
RETURNS TABLE (conductor_group text, driver text, key text, flow text) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  PERFORM coterie_require_part(wanted);
  RETURN QUERY UPDATE steps s SET state = 'ready' WHERE s.state = 'queued' AND s.id IN (
      SELECT q.id FROM steps q WHERE q.task = wanted AND q.stage = wanted_stage AND q.state = 'queued'
      ORDER BY q.id LIMIT room)
    RETURNING s.conductor_group, s.driver, coalesce(s.node, s.cloud, ''), s.flow;
END $$;

CREATE FUNCTION coterie_skip_steps(wanted bigint, wanted_stage integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE skipped bigint;
BEGIN
  PERFORM coterie_require_part(wanted);
  UPDATE steps SET state = 'skipped' WHERE task = wanted AND stage = wanted_stage AND state = 'queued';
  GET DIAGNOSTICS skipped = ROW_COUNT;
  RETURN skipped;
END $$;

CREATE FUNCTION coterie_count_steps(wanted bigint) RETURNS TABLE (state text, count bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  PERFORM coterie_require_part(wanted);
  RETURN QUERY SELECT s.state, count(*) FROM steps s WHERE s.task = wanted GROUP BY s.state;
END $$;

CREATE FUNCTION coterie_failed_steps(wanted bigint) RETURNS TABLE (subject text, flow text, label text, error json)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  PERFORM coterie_require_part(wanted);
  RETURN QUERY SELECT s.subject, s.flow, s.label, s.error FROM steps s
    WHERE s.task = wanted AND s.state = 'failed' ORDER BY s.id LIMIT 100;
END $$;

CREATE FUNCTION coterie_stemcell_users(wanted_cloud text, ref text) RETURNS bigint LANGUAGE plpgsql STABLE
SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  RETURN (SELECT count(*) FROM nodes n WHERE n.cloud = wanted_cloud AND n.spec ->> 'stemcell' = ref)
    + (SELECT count(*) FROM steps s WHERE s.cloud = wanted_cloud AND s.state IN ('queued', 'ready', 'running')
       AND s.data -> 'wish' ->> 'stemcell' = ref);
END $$;

CREATE FUNCTION coterie_forget_deployment(wanted bigint) RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE gone text;
BEGIN
  PERFORM coterie_require_part(wanted);
  SELECT t.deployment INTO gone FROM tasks t WHERE t.id = wanted AND t.kind = 'delete'
    AND t.state IN ('running', 'cancelling')
    AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.task = t.id AND s.state <> 'done');
  IF gone IS NULL OR EXISTS (SELECT 1 FROM nodes n WHERE n.deployment = gone) THEN
    RETURN false;
  END IF;
  DELETE FROM server_group_users u USING instance_groups i WHERE u.instance_group = i.id AND i.deployment = gone;
  DELETE FROM instance_groups i WHERE i.deployment = gone;
  DELETE FROM deployments d WHERE d.name = gone;
  RETURN FOUND;
END $$;

CREATE FUNCTION coterie_note_task_group() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  INSERT INTO task_groups (task, conductor_group) VALUES (NEW.task, NEW.conductor_group) ON CONFLICT DO NOTHING;
  IF TG_OP = 'UPDATE' AND OLD.state = 'running' AND OLD.conductor_group <> NEW.conductor_group THEN
    INSERT INTO lent_steps AS l (step, task, epoch, conductor_group) VALUES (OLD.id, OLD.task, OLD.epoch,
      OLD.conductor_group) ON CONFLICT (step) DO UPDATE SET epoch = EXCLUDED.epoch,
      conductor_group = EXCLUDED.conductor_group WHERE l.epoch <> EXCLUDED.epoch;
  END IF;
  RETURN NULL;
END $$;

CREATE TRIGGER coterie_note_task_group AFTER INSERT OR UPDATE OF conductor_group ON steps
FOR EACH ROW EXECUTE FUNCTION coterie_note_task_group();

CREATE FUNCTION coterie_forget_task_groups() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp AS $$
BEGIN
  DELETE FROM task_groups WHERE task = OLD.id;
  DELETE FROM lent_steps WHERE task = OLD.id;
  RETURN NULL;
END $$;

CREATE TRIGGER coterie_forget_task_groups AFTER DELETE ON tasks
FOR EACH ROW EXECUTE FUNCTION coterie_forget_task_groups();

CREATE FUNCTION coterie_refuse_node() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE insufficient_privilege USING MESSAGE = 'an object is not given to another node';
END $$;

CREATE TRIGGER coterie_refuse_node BEFORE UPDATE OF node ON objects
FOR EACH ROW WHEN (NEW.node IS NOT NULL AND NEW.node IS DISTINCT FROM OLD.node)
EXECUTE FUNCTION coterie_refuse_node();
"""

_CALLABLE = (
    "coterie_groups()",
    "coterie_serves_all()",
    "coterie_clouds()",
    "coterie_is_lent(bigint, integer)",
    "coterie_has_deployment(text)",
    "coterie_may_hold(text, text)",
    "coterie_takes_part(bigint)",
    "coterie_require_part(bigint)",
    "coterie_admit_steps(bigint, integer, bigint)",
    "coterie_skip_steps(bigint, integer)",
    "coterie_count_steps(bigint)",
    "coterie_failed_steps(bigint)",
    "coterie_stemcell_users(text, text)",
    "coterie_forget_deployment(bigint)",
)


def upgrade() -> None:
    op.create_table(
        "conductor_roles",
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("conductor_group", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("role", "conductor_group"),
    )
    op.create_table(
        "task_groups",
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("conductor_group", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task", "conductor_group"),
    )
    op.create_table(
        "lent_steps",
        sa.Column("step", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False, autoincrement=False),
        sa.Column("task", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("conductor_group", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("step"),
    )
    op.add_column("domains", sa.Column("cloud", sa.Text(), nullable=True))
    op.add_column("changes", sa.Column("cloud", sa.Text(), nullable=True))
    op.create_index("nodes_by_cloud", "nodes", ["cloud", "conductor_group"])
    if op.get_bind().dialect.name == "postgresql":
        _separate_sites(op.get_bind())


def _separate_sites(tx: sa.Connection) -> None:
    # Rows of no lease: the next holder makes them anew, with its cloud.
    tx.exec_driver_sql("DELETE FROM domains WHERE holder IS NULL OR expires < extract(epoch from clock_timestamp())")
    tx.exec_driver_sql("INSERT INTO task_groups SELECT DISTINCT task, conductor_group FROM steps")
    for statement in _split(_FUNCTIONS):
        tx.exec_driver_sql(statement)
    for function in (*_CALLABLE, "coterie_note_task_group()", "coterie_forget_task_groups()"):
        tx.exec_driver_sql(f"REVOKE ALL ON FUNCTION {function} FROM PUBLIC")
    for table, policy in _POLICIES.items():
        changed = policy.changed or policy.seen
        for line in (
            f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
            f"CREATE POLICY coterie_see ON {table} FOR SELECT USING ({policy.seen})",
            f"CREATE POLICY coterie_change ON {table} FOR UPDATE USING ({changed}) WITH CHECK ({policy.becomes})",
            f"CREATE POLICY coterie_remove ON {table} FOR DELETE USING ({changed})",
            f"CREATE POLICY coterie_add ON {table} FOR INSERT WITH CHECK ({policy.added or changed})",
        ):
            tx.exec_driver_sql(line)
    _keep_old_roles(tx)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";\n\n") if part.strip()]


def _keep_old_roles(tx: sa.Connection) -> None:
    """Roles with rights of an earlier release see all sites as before: their conductors must work on."""
    old = tx.exec_driver_sql(
        "SELECT DISTINCT quote_ident(r.rolname), r.rolname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a"
        " JOIN pg_roles r ON r.oid = a.grantee WHERE c.oid = 'steps'::regclass AND a.grantee <> c.relowner"
    ).all()
    for quoted, name in old:
        tx.execute(sa.text("INSERT INTO conductor_roles VALUES (:role, '*')"), {"role": name})
        functions = ", ".join(_CALLABLE)
        tx.exec_driver_sql(f"GRANT EXECUTE ON FUNCTION {functions} TO {quoted}".replace("%", "%%"))
