"""How many calls of CloudStack's API one CPI call takes, by the program alone and with the core process, which keeps
what it learnt. Counted by the emulated cloud itself; questions after a job's end are told apart. Asserts nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coterie.bosh.launcher import program
from coterie.sandbox.datacenter import open_datacenter
from coterie.sandbox.fronts.cloudstack.server import Server

SCRUBBED = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
POLL = "queryAsyncJobResult"


class Cloud:
    """The emulator in this process; it counts what it is asked."""

    def __init__(self, folder: Path) -> None:
        self.server = Server(open_datacenter(folder / "sandbox.db"))
        self.asked: Counter[str] = Counter()
        ask = self.server.front.ask

        def counted(raw: Any, **more: Any) -> Any:
            self.asked[raw.get("command", "")] += 1
            return ask(raw, **more)

        self.server.front.ask = counted  # type: ignore[method-assign]  # for as long as this process lives
        self.server.start()

    def properties(self) -> dict[str, Any]:
        keys = next(keys for keys in self.server.front.keys if keys.account == "admin")
        return {
            "endpoint": self.server.endpoint,
            "api_key": keys.api_key,
            "secret_access_key": keys.secret_key,
            "default_zone": "z1",
            "poll_s": 0.05,
        }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cloud = Cloud(folder)
        cpi = _installed(folder, cloud.properties())
        alone = _life(cloud, cpi, folder / "image", "alone")
        with _core(folder):
            _life(cloud, cpi, folder / "image", "first")  # what is learnt once is not counted
            core = _life(cloud, cpi, folder / "image", "core")
        cloud.server.close()
    print(f"{'calls of the API':<20} {'alone':>12} {'with the core':>14}   (+ questions after jobs)")
    for method, asked in alone.items():
        print(f"{method:<20} {_told(asked):>12} {_told(core[method]):>14}   {_named(core[method])}")


def _life(cloud: Cloud, cpi: str, image: Path, agent: str) -> dict[str, Counter[str]]:
    """Each method once, in the order of a machine's life."""
    found: dict[str, Counter[str]] = {}

    def ask(method: str, *arguments: Any) -> Any:
        cloud.asked.clear()
        result = _ask(cpi, method, list(arguments))
        found[method] = Counter(cloud.asked)
        return result

    size, networks = (
        {"compute_offering": "tiny"},
        {"default": {"type": "dynamic", "cloud_properties": {"name": "net-z1"}}},
    )
    stemcell = ask("create_stemcell", str(image), {})
    vm = ask("create_vm", agent, stemcell, size, networks, [], {"bosh": {"group": f"bosh-dep-{agent}"}})[0]
    ask("has_vm", vm)
    ask("set_vm_metadata", vm, {"job": "web", "index": "0"})
    disk = ask("create_disk", 1024, {}, vm)
    ask("attach_disk", vm, disk)
    ask("get_disks", vm)
    snapshot = ask("snapshot_disk", disk, {})
    ask("delete_snapshot", snapshot)
    ask("detach_disk", vm, disk)
    ask("delete_disk", disk)
    ask("delete_vm", vm)
    ask("delete_stemcell", stemcell)
    ask("cleanup", _DIRECTOR, None, {"dry_run": False, "grace_s": 0})
    return found


_DIRECTOR = "6f0d5a52-9a3c-4c55-b7a1-0c6b6d1f2e11"


def _installed(folder: Path, properties: dict[str, Any]) -> str:
    places = {"ledger": str(folder / "ledger.db"), "socket": str(folder / "cpi.sock")}
    (folder / "cpi.json").write_text(json.dumps({"driver": "cloudstack", **places, "properties": properties}))
    (folder / "image").write_bytes(b"image")
    launcher = folder / "cpi"
    launcher.write_text(program(str(folder / "cpi.json"), places["socket"]))
    launcher.chmod(0o755)
    return str(launcher)


@contextmanager
def _core(folder: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "coterie.bosh.main", "serve", "--config", str(folder / "cpi.json")]
    core = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    while not (folder / "cpi.sock").exists():
        time.sleep(0.02)
    try:
        yield
    finally:
        core.terminate()
        core.wait()


def _ask(cpi: str, method: str, arguments: list[Any]) -> Any:
    request = {"method": method, "arguments": arguments, "context": {"director_uuid": _DIRECTOR}, "api_version": 2}
    raw = json.dumps(request).encode()
    done = subprocess.run([cpi], input=raw, env=SCRUBBED, check=True, stdout=subprocess.PIPE)
    envelope = json.loads(done.stdout)
    assert envelope["error"] is None, envelope
    return envelope["result"]


def _told(asked: Counter[str]) -> str:
    return f"{asked.total() - asked[POLL]} + {asked[POLL]}"


def _named(asked: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" if count > 1 else name for name, count in asked.items() if name != POLL)


if __name__ == "__main__":
    main()
