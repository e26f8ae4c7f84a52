"""The daemons that a cluster can be of: Incus, as Debian has it, or LXD, as `tests/peers/lxd/build` built it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.peers.incus.packages import DAEMON


@dataclass(frozen=True)
class Daemon:
    """`data`: the name of its folders below /var. `init`: the command that takes a preseed. `variable`: of the
    environment, which tells the client the daemon's folder. `first`: the number of its first cluster, so that clusters
    of both can be there at the same time."""

    name: str
    path: Path
    data: str
    client: str
    init: tuple[str, ...]
    variable: str
    setting: str
    first: int

    def folder(self, number: int) -> Path:
        """Short, since the path of a socket may have 107 characters."""
        more = f"-{number - self.first}" if number != self.first else ""
        return Path(os.environ.get(self.setting, f"/var/tmp/coterie-{self.data}") + more)


INCUS = Daemon("Incus", DAEMON, "incus", "incus", ("incus", "admin", "init"), "INCUS_DIR", "COTERIE_INCUS", 0)


def lxd(built: Path) -> Daemon:
    """`built`: the folder that the build printed."""
    path = built / "lxd"
    return Daemon("LXD", path, "lxd", str(built / "lxc"), (str(path), "init"), "LXD_DIR", "COTERIE_LXD_FOLDER", 50)


def chosen() -> Daemon:
    """LXD where `COTERIE_LXD` names the folder that it was built in."""
    built = os.environ.get("COTERIE_LXD")
    return lxd(Path(built)) if built else INCUS
