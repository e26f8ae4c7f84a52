"""The real bosh CLI and the real BOSH agent, as `make test-bosh` builds them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

BOSH = os.environ.get("COTERIE_BOSH", "")
RELEASE = Path(__file__).parents[2] / "deploy" / "bosh-release"


def bosh(*words: str, cwd: Path) -> Any:
    done = subprocess.run(
        [f"{BOSH}/bosh", "--json", "--non-interactive", *words],
        cwd=cwd,
        env={**os.environ, "HOME": str(cwd)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)
