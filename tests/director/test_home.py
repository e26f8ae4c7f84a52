"""The state folder: private, one Director at a time, and a socket however deep it lies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import __version__
from coterie.director.process import listen
from coterie.director.process.home import Home, reachable
from coterie.director.process.lock import Lock, holder
from coterie.errors import UsageError


def test_the_folder_is_made_private_and_kept_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "b")
    home.prepare()
    assert home.folder.stat().st_mode & 0o777 == 0o700
    home.folder.chmod(0o755)
    home.prepare()
    assert home.folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_can_not_be_made_is_told_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot use the state folder") as caught:
        Home(tmp_path / "file" / "x").prepare()
    assert "COTERIE_STATE" in caught.value.remedy


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="another user"):
        Home(tmp_path).prepare()


def test_a_lock_has_one_holder_who_signs_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = Lock(path), Lock(path)
    assert holder(path) is None
    assert first.take()
    assert not second.take()
    first.sign()
    who = holder(path)
    assert who is not None and (who.pid, who.version) == (os.getpid(), __version__)
    first.release()
    assert holder(path) is None
    assert second.take()
    second.release()


def test_a_lock_ends_with_its_process_however_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import sys, time; from pathlib import Path; from coterie.director.process.lock import Lock\n"
        "lock = Lock(Path(sys.argv[1])); assert lock.take(); lock.sign(); print('held', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    who = holder(path)
    assert who is not None and who.pid == child.pid
    child.kill()
    child.wait(30)
    child.stdout.close()
    assert holder(path) is None


@pytest.mark.parametrize("depth", [0, 8])
def test_a_socket_works_in_a_folder_of_any_depth(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-long-name-of-a-folder"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "director.sock"
    assert (len(str(path)) > 108) == (depth > 0)
    assert not listen.answers(path)
    door = listen.unix(path)
    with door:
        assert path.stat().st_mode & 0o777 == 0o600
        assert listen.answers(path)
        with socket.socket(socket.AF_UNIX) as caller, reachable(path) as name:
            caller.connect(name)
    assert not listen.answers(path)


def test_a_dead_directors_socket_is_swept_away(tmp_path: Path) -> None:
    path = tmp_path / "director.sock"
    listen.unix(path).close()
    with listen.unix(path):
        assert listen.answers(path)


def test_an_address_in_use_is_told(tmp_path: Path) -> None:
    with listen.tcp("127.0.0.1:0") as door:
        port = door.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            listen.tcp(f"127.0.0.1:{port}")
