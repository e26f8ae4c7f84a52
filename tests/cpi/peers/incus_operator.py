"""Another user of the same project, without marks, who calls the cluster directly, past the proxy."""

from __future__ import annotations

import hashlib
import io
import itertools
import tarfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from tests.peers.incus.cluster import NETWORK, POOL, Cluster, Refused

from coterie.cpi.conformance.hands import Operator
from coterie.cpi.contract import KEEP, GroupResource, Kind

VOLUMES = f"/1.0/storage-pools/{POOL}/volumes/custom"
PATHS = {
    "vm": "/1.0/instances",
    "server_group": "/1.0/profiles",
    "security_group": "/1.0/network-acls",
    "image": "/1.0/images",
    "network": "/1.0/networks",
}
ROOT = {"root": {"type": "disk", "path": "/", "pool": POOL}}
_numbers = itertools.count()


class IncusOperator(Operator):
    def __init__(self, cluster: Cluster, project: str) -> None:
        self.cluster = cluster
        self.project = project

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        mark = "&" if "?" in path else "?"
        return self.cluster.call(method, f"{path}{mark}project={self.project}", body, **headers)

    def rows(self, path: str) -> list[Any]:
        return list(self.call("GET", f"{path}?recursion=1"))

    def create_vm(self, name: str, az: str, **more: Any) -> str:
        return self.create_on(f"@{az}", name, **more)

    def create_on(self, target: str, name: str, **more: Any) -> str:
        """On a member or in a cluster group. Empty: it has nothing to boot."""
        body = {"name": name, "source": {"type": "none"}, "devices": ROOT, "profiles": [], **more}
        self.call("POST", f"/1.0/instances?target={target}", body)
        return name

    def create_group(self, name: str, policy: str, az: str) -> str:
        self.call("POST", "/1.0/profiles", {"name": name, "config": {"user.coterie-policy": policy}})
        return name

    def create_security_group(self, name: str) -> str:
        self.call("POST", "/1.0/network-acls", {"name": name})
        return name

    def create_image(self, properties: Mapping[str, str]) -> str:
        """Of bytes of its own, since Incus takes the same ones once."""
        text = f"architecture: x86_64\ncreation_date: {next(_numbers) + 1}\nproperties: {{os: none}}\n".encode()
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            entry = tarfile.TarInfo("metadata.yaml")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
            folder = tarfile.TarInfo("rootfs")
            folder.type = tarfile.DIRTYPE
            tar.addfile(folder)
        raw = archive.getvalue()
        self.call("POST", "/1.0/images", raw, **{f"x-{self.cluster.daemon.data}-properties": urlencode(properties)})
        return hashlib.sha256(raw).hexdigest()

    def create(self, kind: Kind, az: str) -> str | None:
        name = f"somebodys-{next(_numbers)}"
        match kind:
            case "vm":
                return self.create_vm(name, az)
            case "disk":
                self.call("POST", VOLUMES, {"name": name})
                return f"{POOL}:{name}"
            case "server_group":
                self.call("POST", "/1.0/profiles", {"name": name})
                return name
            case "security_group":
                return self.create_security_group(name)
            case "image":
                return self.create_image({"name": name})
        return None

    def keep(self, kind: Kind, cid: str) -> bool:
        path = self._path(kind, cid)
        row = self.call("GET", path)
        if kind == "snapshot":
            self.call("PATCH", path, {"description": KEEP})
        elif kind == "image":
            self.call("PATCH", path, {"properties": {**row["properties"], KEEP: "yes"}})
        elif kind == "server_group":
            self.call("PATCH", path, {"config": {**row["config"], f"user.{KEEP}": "yes"}})
        else:
            self.call("PATCH", path, {"config": {f"user.{KEEP}": "yes"}})
        return True

    def copy(self, kind: Kind, cid: str) -> str | None:
        row = self.call("GET", self._path(kind, cid))
        name = f"copy-{next(_numbers)}"
        body = {key: row[key] for key in ("config", "description", "ingress", "egress")}
        self.call("POST", PATHS[kind], {"name": name, **body})
        return name

    def share(self, image_cid: str) -> bool:
        self.call("PATCH", f"/1.0/images/{image_cid}", {"public": True})
        return True

    def join(self, vm_cid: str, resource: GroupResource) -> str:
        row = self.call("GET", f"/1.0/instances/{vm_cid}")
        self.call("PUT", f"/1.0/instances/{vm_cid}", {**row, "profiles": [*row["profiles"], resource.cid]})
        return vm_cid

    def delete(self, kind: Kind, cid: str) -> None:
        """A profile leaves its VMs first: Incus deletes none that is in use."""
        if not self.exists(kind, cid):
            return
        if kind == "vm":
            if self.call("GET", f"/1.0/instances/{cid}")["status"] == "Running":
                self.call("PUT", f"/1.0/instances/{cid}/state", {"action": "stop", "force": True})
        elif kind == "server_group":
            for row in self.rows("/1.0/instances"):
                if cid in row["profiles"]:
                    left = [one for one in row["profiles"] if one != cid]
                    self.call("PUT", f"/1.0/instances/{row['name']}", {**row, "profiles": left})
        elif kind == "security_group":
            self._take_from_nics(cid)
        self.call("DELETE", self._path(kind, cid))

    def clear(self) -> None:
        """Deletes all that the project has, as after a test that failed."""
        for row in self.rows("/1.0/instances"):
            self.delete("vm", row["name"])
        for row in self.rows(VOLUMES):
            if "/" not in row["name"]:
                self.call("DELETE", f"{VOLUMES}/{row['name']}?target={row['location']}")
        for kind, key in (("image", "fingerprint"), ("server_group", "name"), ("security_group", "name")):
            for row in self.rows(PATHS[kind]):
                if row[key] != "default":
                    self.call("DELETE", f"{PATHS[kind]}/{row[key]}")

    def exists(self, kind: Kind, cid: str) -> bool:
        try:
            self.call("GET", self._path(kind, cid))
        except Refused as error:
            if error.status == 404:
                return False
            raise
        return True

    def contents(self) -> set[tuple[str, str]]:
        """All objects of the project."""
        found = {("vm", row["name"]) for row in self.rows("/1.0/instances")}
        for row in self.rows(VOLUMES):
            kind = "snapshot" if "/" in row["name"] else "disk"
            found.add((kind, f"{row['name']} on {row['location']}"))
        found |= {("image", row["fingerprint"]) for row in self.rows("/1.0/images")}
        return found | {("server_group", row["name"]) for row in self.rows("/1.0/profiles") if row["name"] != "default"}

    def locations(self, *names: str) -> list[str]:
        """Of these VMs, or of all."""
        return [row["location"] for row in self.rows("/1.0/instances") if not names or row["name"] in names]

    def _take_from_nics(self, acl: str) -> None:
        for row in self.rows("/1.0/instances"):
            nic = row["devices"].get("eth0") or {}
            has = [one for one in str(nic.get("security.acls") or "").split(",") if one]
            if acl in has:
                nic["security.acls"] = ",".join(one for one in has if one != acl)
                if not nic["security.acls"]:
                    del nic["security.acls"]
                self.call("PUT", f"/1.0/instances/{row['name']}", row)

    def _path(self, kind: Kind, cid: str) -> str:
        if kind == "disk":
            return f"{VOLUMES}/{cid.partition(':')[2]}"
        if kind == "snapshot":
            volume, _, name = cid.partition(":")[2].partition("/")
            return f"{VOLUMES}/{volume}/snapshots/{name}"
        return f"{PATHS[kind]}/{cid}"


__all__ = ["NETWORK", "IncusOperator"]
