"""The table of settings: name, form, default and what each is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.settings import values


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    read: Callable[[Any], Any]  # raises ValueError with the words "must be …"
    default: Any
    help: str
    secret: bool = False

    @property
    def variable(self) -> str:
        return f"COTERIE_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """`coterie conductor` leaves its own name out of its flags: --group, --name, --listen."""
        return "--" + self.name.removeprefix("conductor_").replace("_", "-")


def all_settings(env: Mapping[str, str]) -> tuple[Setting, ...]:
    state = xdg(env, "XDG_STATE_HOME", ".local/state") / "coterie"
    return (
        Setting("state", values.path, state, "folder of the local Director: socket, ledger, log, stemcells"),
        Setting("director", values.url, None, "URL of the Director; unset: the local one, started on demand"),
        Setting("token", values.text, None, "bearer token for a Director on TCP", secret=True),
        Setting("token_file", values.path, None, "file with that token, for its owner's eyes only"),
        Setting("ca", values.path, None, "file with the certificates that a Director's is checked against"),
        Setting("vars_store", values.text, None, "store of variables for manifests: directory:FOLDER, or a package's"),
        Setting("output", values.choice("table", "json"), "table", "form of the data on stdout"),
        Setting("color", values.choice("auto", "always", "never"), "auto", "colours; NO_COLOR turns them off too"),
        Setting("database", values.database, None, "ledger of the Director; unset: SQLite in the state folder"),
        Setting("listen", values.address, None, "HOST:PORT of `coterie director`; unset: the unix socket"),
        Setting("name", values.text, "coterie", "name of this Director, given at its first start"),
        Setting(
            "uuid", values.uuid, None, "uuid of a Director whose ledger was lost, for the first start of a new one"
        ),
        Setting("workers", values.integer(1, 1024), 32, "steps that a conductor runs at once"),
        Setting("workers_per_cloud", values.integer(0, 1024), 0, "of them, at most for one cloud; 0: three quarters"),
        Setting("conductor", values.flag, True, "whether the Director runs work itself, or leaves it to conductors"),
        Setting("conductor_name", values.text, None, "name of a conductor; unset: its host's name and its group"),
        Setting("conductor_group", values.group, "", "site or rack that a conductor works for; empty: none"),
        Setting("drivers", values.names, None, "drivers that a conductor offers; unset: all that are installed"),
        Setting("exec_paths", values.paths, (), "programs that the driver exec may run, as full paths; unset: none"),
        Setting(
            "credential_sources",
            values.sources,
            None,
            "credentials of its machine that clouds may use: environment, instance, profile:NAME, full paths of files, "
            "or * for all; unset: none, and all for a Director at its unix socket",
        ),
        Setting("weight", values.between(0.1, 100.0), 1.0, "share of the work that a conductor takes, beside others"),
        Setting(
            "ring",
            values.ring,
            "probed",
            "how rings map nodes to conductors; ironic: as Ironic does; ironic:EXPONENT:HASH: with these settings",
        ),
        Setting("lease", values.between(1.0, 3600.0), 6.0, "seconds of silence after which others take over the work"),
        Setting("pin_release_version", values.release, None, "release to behave as until every service is upgraded"),
        Setting("call_timeout", values.number, 600.0, "seconds that one cloud call may take"),
        Setting("idle_minutes", values.number, 15.0, "idle minutes after which the local Director ends; 0: never"),
        Setting("look_interval", values.number, 60.0, "seconds between two looks at what became of the VMs; 0: none"),
        Setting("meltdown_percent", values.number, 30.0, "share of a cloud's nodes that may vanish within one look"),
        Setting("meltdown_nodes", values.integer(1, 10**6), 3, "fewer nodes than this may vanish whatever their share"),
        Setting("keep_history_days", values.number, 365.0, "days that ended tasks and events are kept; 0: for ever"),
        Setting("auto_anti_affinity", values.flag, False, "give every instance group a server group of its own"),
        Setting("key_file", values.path, None, "private keys of a conductor; unset: conductor.key in the state folder"),
        *_access(),
        *_operations(),
        *_cleanup(),
    )


def _access() -> tuple[Setting, ...]:
    return (
        Setting("tls_certificate", values.path, None, "certificate chain of a Director on TCP; unset: no TLS"),
        Setting("tls_key", values.path, None, "private key of that certificate"),
        Setting("plain_http", values.flag, False, "let tokens travel over http:// beyond this machine"),
        Setting(
            "trusted_proxies", values.networks, (), "addresses or networks whose X-Forwarded-For a Director believes"
        ),
        Setting("oidc_issuer", values.web, None, "issuer whose JSON web tokens are taken too; unset: none"),
        Setting("oidc_audience", values.text, "coterie", "audience that those tokens must name"),
        Setting("oidc_algorithms", values.algorithms, ("RS256", "ES256"), "signatures that are taken"),
        Setting("oidc_claim", values.text, "groups", "claim with the groups of a user"),
        Setting("oidc_roles", values.roles, {}, "GROUP=ROLE,…: what groups may do; a user without a role is refused"),
        Setting("oidc_teams", values.pairs, None, "GROUP=TEAM,…: limits users to teams; unset: no limit"),
        Setting("oidc_client_id", values.text, None, "client that the console logs users in as; unset: no such log-in"),
        Setting("oidc_client_secret", values.text, None, "secret of that client, where it has one", secret=True),
        Setting("oidc_scopes", values.text, "openid profile email", "scopes that the console asks the issuer for"),
        Setting("console_session_hours", values.number, 12.0, "hours after which the console asks for a log-in again"),
        Setting("oidc_ca", values.path, None, "file with the certificates that the issuer's is checked against"),
    )


def _operations() -> tuple[Setting, ...]:
    return (
        Setting(
            "log_format", values.choice("auto", "json", "text"), "auto", "logs of services; auto: text on a terminal"
        ),
        Setting("conductor_listen", values.address, None, "HOST:PORT of a conductor's /livez, /readyz and /metrics"),
        Setting("metrics_token", values.text, None, "bearer token that a conductor's page wants", secret=True),
        Setting(
            "otlp_endpoint", values.url, None, "URL of an OpenTelemetry collector (OTLP over HTTP); unset: no traces"
        ),
    )


def _cleanup() -> tuple[Setting, ...]:
    return (
        Setting("cleanup_schedule", values.text, None, "cron expression (UTC) of the Director's cleanups; unset: none"),
        Setting("cleanup_apply", values.flag, False, "let scheduled cleanups delete; else they only list"),
        Setting("cleanup_hours", values.text, None, "hours (UTC) in which a cleanup may delete, for example 22-6"),
        Setting("cleanup_grace_hours", values.number, 24.0, "hours that an orphan is left alone after it was seen"),
        Setting("cleanup_undo_days", values.number, 7.0, "days that an unused disk is kept for undo"),
        Setting("cleanup_disks", values.choice("keep", "snapshot"), "keep", "what becomes of unused disks first"),
        Setting("cleanup_keep_stemcells", values.integer(0, 10**6), 2, "newest unused images kept per name and cloud"),
        Setting("cleanup_cap", values.integer(0, 10**6), 20, "deletes of one kind and cloud that look like a mistake"),
        Setting("cleanup_cap_percent", values.number, 25.0, "the same as a share of what is there"),
        Setting("cleanup_rate", values.number, 5.0, "deletes a second and cloud"),
        Setting("cleanup_webhook", values.url, None, "URL that gets the results of cleanups, as JSON", secret=True),
        Setting(
            "cleanup_command", values.text, None, "command that gets the results of cleanups, on its standard input"
        ),
    )


def xdg(env: Mapping[str, str], variable: str, otherwise: str) -> Path:
    # The XDG rules say that a relative path in these variables is to be ignored.
    given = env.get(variable, "")
    return Path(given) if given.startswith("/") else Path(env.get("HOME") or Path.home()) / otherwise
