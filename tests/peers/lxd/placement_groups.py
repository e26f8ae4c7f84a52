"""Placement groups of LXD 6.6 and later, before an LXD that has none yet: as LXD's own source has their names, keys,
answers and users. They are kept by this process; what names them is in the real LXD under another key. LXD's own
choice of a member is not done: a create that would need it is refused."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Answer = tuple[int, dict[str, str], bytes]
Forward = Callable[[str, str, Any, bytes], Answer]
EXTENSION, KEY = "instance_placement_groups", "placement.group"
KEPT_AS = "user.kept-placement-group"
_NAME = re.compile(r"[/.:_a-zA-Z0-9-]{1,63}")
_WORDS = {"policy": ("spread", "compact"), "rigor": ("strict", "permissive")}
_JSON = {"content-type": "application/json"}


class PlacementGroups:
    """Of one cluster: groups by project and name."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def names(self, project: str) -> list[str]:
        return [name for one, name in self._groups if one == project]

    def change(self, project: str, name: str, config: dict[str, str]) -> None:
        """As an operator does it, past all checks."""
        self._groups[project, name]["config"] |= config

    def remove(self, project: str, name: str) -> None:
        self._groups.pop((project, name), None)

    def around(self, forward: Forward) -> Forward:
        """The same server, with placement groups."""

        def answer(method: str, path: str, headers: Any, body: bytes) -> Answer:
            parts = urlsplit(path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            kind, _, escaped = parts.path.removeprefix("/1.0/").partition("/")
            if kind == "placement-groups":
                with self._lock:
                    return self._answer(
                        method, unquote(escaped), query.get("project", "default"), headers, body, forward
                    )
            if (method, parts.path) == ("POST", "/1.0/instances") and f'"{KEY}"'.encode() in body:
                return _error(501, "this stand-in chooses no member: name one, and have a profile name the group")
            sent = body.replace(f'"{KEY}"'.encode(), f'"{KEPT_AS}"'.encode()) if _is_json(headers) else body
            status, given, raw = forward(method, path, headers, sent)
            raw = raw.replace(f'"{KEPT_AS}"'.encode(), f'"{KEY}"'.encode())
            if (method, parts.path) == ("GET", "/1.0"):
                found = json.loads(raw)
                found["metadata"]["api_extensions"].append(EXTENSION)
                raw = json.dumps(found).encode()
            return status, given, raw

        return answer

    def _answer(self, method: str, name: str, project: str, headers: Any, body: bytes, forward: Forward) -> Answer:
        sent = json.loads(body or b"{}")
        if not name:
            if method == "POST":
                return self.create(project, sent)
            names = self.names(project)
            return _sync([self._row(project, one, forward) for one in names]) if method == "GET" else _error(404, "no")
        if (project, name) not in self._groups:
            return _error(404, "Placement group not found")
        row = self._row(project, name, forward)
        match method:
            case "GET":
                return _sync(row)
            case "PUT" | "PATCH":
                return self._change(project, name, method, sent, headers)
            case "DELETE":
                if row["used_by"]:
                    return _error(400, f'Placement group "{name}" is currently in use')
                del self._groups[project, name]
                return _sync(None)
        return _error(404, "not found")

    def create(self, project: str, sent: dict[str, Any]) -> Answer:
        name, config = str(sent.get("name") or ""), dict(sent.get("config") or {})
        if not _NAME.fullmatch(name) or name.startswith("."):
            return _error(400, "Name must be 1-63 characters long")
        if set(sent) - {"name", "description", "config"}:
            return _error(400, "unknown field")
        wrong = _refusal(config)
        if wrong:
            return wrong
        if (project, name) in self._groups:
            return _error(409, 'This "placement_groups" entry already exists')
        self._groups[project, name] = {"description": sent.get("description", ""), "config": config}
        return _sync(None, 201)

    def _change(self, project: str, name: str, method: str, sent: dict[str, Any], headers: Any) -> Answer:
        """An etag never fits: LXD computes that of an answer and that of a change of different rows."""
        if headers.get("if-match"):
            return _error(412, "Precondition failed")
        row = self._groups[project, name]
        config = {**(row["config"] if method == "PATCH" else {}), **(sent.get("config") or {})}
        config = {key: value for key, value in config.items() if value != ""}
        wrong = _refusal(config)
        if wrong:
            return wrong
        row["config"] = config
        return _sync(None)

    def _row(self, project: str, name: str, forward: Forward) -> dict[str, Any]:
        used = [
            f"/1.0/{kind}/{row['name']}" + (f"?project={project}" if project != "default" else "")
            for kind in ("instances", "profiles")
            for row in _list(forward, kind, project)
            if (row.get("config") or {}).get(KEPT_AS) == name
        ]
        return {
            "name": name,
            "project": project,
            "used_by": used,
            **json.loads(json.dumps(self._groups[project, name])),
        }


def _refusal(config: dict[str, str]) -> Answer | None:
    for key, value in config.items():
        if not key.startswith("user.") and value not in _WORDS.get(key, ()):
            return _error(500, f'Invalid placement group key "{key}"')
    lacking = [key for key in _WORDS if key not in config]
    return _error(400, f'Missing required config key: "{lacking[0]}"') if lacking else None


def _list(forward: Forward, kind: str, project: str) -> list[dict[str, Any]]:
    _, _, raw = forward("GET", f"/1.0/{kind}?recursion=1&project={project}", {}, b"")
    return list(json.loads(raw)["metadata"])


def _is_json(headers: Any) -> bool:
    return not str(headers.get("content-type") or "").startswith("application/octet-stream")


def _sync(metadata: Any, status: int = 200) -> Answer:
    body = {"type": "sync", "status": "Success", "status_code": 200, "metadata": metadata}
    return status, dict(_JSON), json.dumps(body).encode()


def _error(status: int, text: str) -> Answer:
    return status, dict(_JSON), json.dumps({"type": "error", "error_code": status, "error": text}).encode()
