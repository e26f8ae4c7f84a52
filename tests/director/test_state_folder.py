"""The state folder: private, one Director at a time, and a socket at any depth."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import __version__
from coterie.director.process import sockets
from coterie.director.process.state_folder import Lock, StateFolder, read_holder
from coterie.errors import UsageError
from coterie.sockets import short_socket_path


def test_the_folder_is_made_private_and_kept_so(tmp_path: Path) -> None:
    state_folder = StateFolder(tmp_path / "a" / "b")
    state_folder.prepare()
    assert state_folder.path.stat().st_mode & 0o777 == 0o700
    state_folder.path.chmod(0o755)
    state_folder.prepare()
    assert state_folder.path.stat().st_mode & 0o777 == 0o700


def test_the_error_names_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot use the state folder") as caught:
        StateFolder(tmp_path / "file" / "x").prepare()
    assert "COTERIE_STATE" in caught.value.remedy


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(UsageError, match="another user"):
        StateFolder(tmp_path).prepare()


def test_a_lock_has_one_holder_that_writes_its_name(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = Lock(path), Lock(path)
    assert read_holder(path) is None
    assert first.take()
    assert not second.take()
    first.write_holder()
    holder = read_holder(path)
    assert holder is not None and (holder.pid, holder.version) == (os.getpid(), __version__)
    first.release()
    assert read_holder(path) is None
    assert second.take()
    second.release()


def test_a_lock_is_released_when_its_process_dies(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    program = (
        "import sys, time; from pathlib import Path; from coterie.director.process.state_folder import Lock\n"
        "lock = Lock(Path(sys.argv[1])); assert lock.take(); lock.write_holder()\n"
        "print('held', flush=True); time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"held\n"
    holder = read_holder(path)
    assert holder is not None and holder.pid == child.pid
    child.kill()
    child.wait(60)
    child.stdout.close()
    assert read_holder(path) is None


@pytest.mark.parametrize("depth", [0, 8])
def test_a_socket_works_in_a_folder_of_any_depth(tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*["a-long-name-of-a-folder"] * depth)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "director.sock"
    assert (len(str(path)) > 108) == (depth > 0)
    assert not sockets.answers(path)
    door = sockets.unix(path)
    with door:
        assert path.stat().st_mode & 0o777 == 0o600
        assert sockets.answers(path)
        with socket.socket(socket.AF_UNIX) as caller, short_socket_path(path) as name:
            caller.connect(name)
    assert not sockets.answers(path)


def test_the_socket_of_a_dead_director_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "director.sock"
    sockets.unix(path).close()
    with sockets.unix(path):
        assert sockets.answers(path)


def test_an_address_in_use_is_a_usage_error(tmp_path: Path) -> None:
    with sockets.tcp("127.0.0.1:0") as door:
        port = door.getsockname()[1]
        with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}"):
            sockets.tcp(f"127.0.0.1:{port}")
