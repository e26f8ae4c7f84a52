"""`max_parallel_calls` of a foreign program: how many of its processes run at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

COUNTING = """
info()
import os, time
folder = {folder!r}
own = os.path.join(folder, str(os.getpid()))
open(own, "w").close()
time.sleep(0.05)
with open(os.path.join(folder, "highest"), "a") as seen:
    seen.write(str(sum(name.isdigit() for name in os.listdir(folder))) + "\\n")
os.remove(own)
say(True)
"""


def test_no_more_programs_run_at_once_than_allowed(foreign: Any, tmp_path: Path) -> None:
    folder = tmp_path / "running"
    folder.mkdir()
    cpi = foreign(COUNTING.format(folder=str(folder)), max_parallel_calls=2)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(cpi.has_vm, [f"i-{number}" for number in range(12)]))
    counts = [int(line) for line in (folder / "highest").read_text().split()]
    assert len(counts) == 12
    assert max(counts) == 2
