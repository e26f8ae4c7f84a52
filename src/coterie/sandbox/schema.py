"""The tables of the state file. `seq` orders objects by age and is the key of every page; ids are what callers see."""

from __future__ import annotations

VERSION = 1

# Every index here is written by the calls that create things, so only what those calls or lists need has one.
# `used` and `members` are counters kept beside the rows they count, so that one placement costs the same
# whether the datacenter holds ten VMs or a hundred thousand.
TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE switches (one INTEGER PRIMARY KEY CHECK (one = 1), log INTEGER NOT NULL, faults INTEGER NOT NULL);
INSERT INTO switches VALUES (1, 0, 0);

CREATE TABLE hosts (
  name TEXT PRIMARY KEY, zone TEXT NOT NULL, rack TEXT NOT NULL, up INTEGER NOT NULL DEFAULT 1,
  cpu INTEGER NOT NULL, ram_mb INTEGER NOT NULL, disk_mb INTEGER NOT NULL,
  used_cpu INTEGER NOT NULL DEFAULT 0, used_ram_mb INTEGER NOT NULL DEFAULT 0,
  used_disk_mb INTEGER NOT NULL DEFAULT 0, vms INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX hosts_by_zone ON hosts (zone);
CREATE TABLE host_groups (name TEXT, host TEXT, PRIMARY KEY (name, host)) WITHOUT ROWID;

CREATE TABLE accounts (
  name TEXT PRIMARY KEY, groups TEXT NOT NULL, soft_lag_ms INTEGER NOT NULL, asked TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE usage (
  account TEXT, resource TEXT, used INTEGER NOT NULL DEFAULT 0, ceiling INTEGER, PRIMARY KEY (account, resource)
) WITHOUT ROWID;

CREATE TABLE objects (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, account TEXT NOT NULL, kind TEXT NOT NULL,
  name TEXT NOT NULL, created_at REAL NOT NULL, revision INTEGER NOT NULL DEFAULT 1, visible_at REAL NOT NULL,
  token TEXT
);
CREATE INDEX objects_by_name ON objects (account, kind, name);
CREATE UNIQUE INDEX objects_by_token ON objects (account, kind, token) WHERE token IS NOT NULL;
CREATE TABLE tags (
  object INTEGER, key TEXT, value TEXT NOT NULL, scope TEXT NOT NULL, PRIMARY KEY (object, key)
) WITHOUT ROWID;
CREATE INDEX tags_by_value ON tags (scope, key, value, object);

CREATE TABLE vms (
  object INTEGER PRIMARY KEY, state TEXT NOT NULL, ready_at REAL NOT NULL, host TEXT, zone TEXT,
  cpu INTEGER NOT NULL, ram_mb INTEGER NOT NULL, disk_mb INTEGER NOT NULL, image TEXT NOT NULL,
  user_data TEXT NOT NULL
);
CREATE TABLE nics (
  network INTEGER, ip TEXT, vm INTEGER NOT NULL, label TEXT NOT NULL, mac TEXT, PRIMARY KEY (network, ip)
) WITHOUT ROWID;
CREATE INDEX nics_by_vm ON nics (vm);
CREATE TABLE networks (object INTEGER PRIMARY KEY, range TEXT, gateway TEXT, next INTEGER NOT NULL DEFAULT 0);
CREATE TABLE images (
  object INTEGER PRIMARY KEY, size_bytes INTEGER NOT NULL, digest TEXT NOT NULL, properties TEXT NOT NULL
);
CREATE TABLE disks (
  object INTEGER PRIMARY KEY, size_mb INTEGER NOT NULL, type TEXT NOT NULL, zone TEXT, vm INTEGER, device TEXT
);
CREATE INDEX disks_by_vm ON disks (vm);
CREATE TABLE snapshots (object INTEGER PRIMARY KEY, disk TEXT NOT NULL, size_mb INTEGER NOT NULL);

CREATE TABLE security_groups (object INTEGER PRIMARY KEY, rules TEXT NOT NULL);
CREATE TABLE vm_security_groups (vm INTEGER, security_group INTEGER, PRIMARY KEY (vm, security_group)) WITHOUT ROWID;
CREATE INDEX vms_by_security_group ON vm_security_groups (security_group);
CREATE TABLE server_groups (
  object INTEGER PRIMARY KEY, policy TEXT, model TEXT NOT NULL, zone TEXT, hosts TEXT,
  host_group TEXT, members INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE members (server_group INTEGER, vm INTEGER, PRIMARY KEY (server_group, vm)) WITHOUT ROWID;
CREATE INDEX members_by_vm ON members (vm);
CREATE TABLE late_news (server_group INTEGER NOT NULL, at REAL NOT NULL, host TEXT NOT NULL);
CREATE INDEX late_news_by_age ON late_news (server_group, at);
CREATE TABLE group_hosts (
  server_group INTEGER, host TEXT, members INTEGER NOT NULL, PRIMARY KEY (server_group, host)
) WITHOUT ROWID;

CREATE TABLE faults (
  id INTEGER PRIMARY KEY AUTOINCREMENT, method TEXT NOT NULL, mode TEXT NOT NULL, times INTEGER, match TEXT,
  ms INTEGER, code TEXT, retryable INTEGER
);
CREATE TABLE calls (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, method TEXT NOT NULL, account TEXT NOT NULL, at REAL NOT NULL,
  ok INTEGER NOT NULL, error TEXT
);
"""

# what `reset` empties; meta and switches are rewritten by it
ROWS = tuple(line.split()[2] for line in TABLES.splitlines() if line.startswith("CREATE TABLE"))[2:]
