"""Virtual machines where the machine has no usable KVM: QEMU emulates the CPU (TCG), on members for which the kernel
seems to have what Incus asks for before it starts one.

Of that, vhost-vsock is the connection to Incus's own agent, which guests of the tests do not have; some kernels have no
such device. And on some machines even root may not raise the limit of locked memory."""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

PROGRAM = "qemu-system-x86_64"
_KVM_S = 10.0

# Incus writes its arguments and the file of `-readconfig` for KVM, as for each user; only here they are changed.
_QEMU = """#!/bin/sh
for word; do
  case $last in
  -accel) word=tcg,tb-size=32;;
  -cpu) word=max;;
  -readconfig) sed -i -e '/^accel = /d' -e '/^.device "qemu_vsock"/,/^$/d' "$word"; accel='-accel tcg,tb-size=32';;
  esac
  last=$word
  set -- "$@" "$word"; shift
done
exec {qemu} $accel "$@"
"""
_MODPROBE = """#!/bin/sh
case "$*" in *vhost_vsock*) exit 0;; esac
exec {modprobe} "$@"
"""
# Before the daemon starts: the member's own view of /dev, with the nodes whose presence Incus checks.
_DEVICES = """mkdir -p /run/dev; mount --rbind /dev /run/dev
mount -t overlay overlay -o lowerdir=/dev,upperdir={m}/dev,workdir={m}/dev-work /dev || exit 1
for p in pts shm; do mount --rbind /run/dev/$p /dev/$p || exit 1; done; umount -l /run/dev
for p in kvm vsock vhost-vsock; do [ -e /dev/$p ] || mknod /dev/$p c 1 3; done
"""

_X86_64 = 0xC000003E
_IOCTL, _BIND, _SETRLIMIT, _PRLIMIT, _SECCOMP = 16, 49, 160, 302, 317
_LOAD, _IS, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _SUCCEED, _NOTIFY = 0x7FFF0000, 0x00050000, 0x7FC00000
_LENGTH, _SET_GUEST_CID, _MEMLOCK = 16, 0x4008AF60, 8
# a system call, which of its arguments is looked at, for which value → what the kernel does instead
_RULES = (
    (_IOCTL, 1, _SET_GUEST_CID, _SUCCEED),
    (_SETRLIMIT, 0, _MEMLOCK, _SUCCEED),
    (_PRLIMIT, 1, _MEMLOCK, _SUCCEED),
    (_BIND, 2, _LENGTH, _NOTIFY),
)
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_HOST, _ANY = 2, 0xFFFFFFFF


def is_needed(kernel: Path) -> bool:
    """Whether no guest boots with KVM here: found by booting Debian's kernel, since /dev/kvm alone proves nothing."""
    return not (_boots(kernel) and _has_vsock())


def prepare(member: Path) -> tuple[str, list[str]]:
    """What the member does before it starts the daemon, and the words before the daemon's own."""
    for name, text in ((PROGRAM, _QEMU), ("modprobe", _MODPROBE)):
        path = member / "bin" / name
        path.write_text(text.format(qemu=shutil.which(PROGRAM), modprobe=shutil.which("modprobe") or "/sbin/modprobe"))
        path.chmod(0o755)
    for name in ("dev", "dev-work"):
        (member / name).mkdir()
    return _DEVICES.format(m=member), [sys.executable, __file__]


@cache
def _boots(kernel: Path) -> bool:
    with tempfile.TemporaryDirectory(prefix="coterie-kvm-") as folder:
        subprocess.run(["dpkg-deb", "--extract", str(kernel), folder], check=True)
        image = next(Path(folder).glob("boot/vmlinuz-*"))
        words = [PROGRAM, "-accel", "kvm", "-cpu", "host", "-m", "256", "-nodefaults", "-nographic", "-no-reboot"]
        words += ["-serial", "stdio", "-kernel", str(image), "-append", "console=ttyS0 panic=-1"]
        with suppress(subprocess.TimeoutExpired):
            ran = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=_KVM_S, check=False)
            return b"Kernel panic" in ran.stdout  # it found no root: so it came that far
    return False


def _has_vsock() -> bool:
    subprocess.run(["modprobe", "vhost_vsock"], capture_output=True, check=False)
    return Path("/dev/vhost-vsock").exists()


def main() -> None:
    """Run a command under these rules, and answer what they ask, for as long as anything of it is there."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        socket.send_fds(theirs, [b"x"], [_install()])
        os.execvp(sys.argv[1], sys.argv[1:])
    theirs.close()
    _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    while waiting.poll()[0][1] & select.POLLIN:
        with suppress(OSError):
            _answer(listener)


def _install() -> int:
    steps = [(_LOAD, 0, 0, 4), (_IS, 1, 0, _X86_64), (_RETURN, 0, 0, _ALLOW)]
    for call, argument, value, action in _RULES:
        steps += [(_LOAD, 0, 0, 0), (_IS, 0, 3, call), (_LOAD, 0, 0, 16 + 8 * argument), (_IS, 0, 1, value)]
        steps.append((_RETURN, 0, 0, action))
    steps.append((_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    listener = int(libc.syscall(_SECCOMP, 1, 8, program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses the rules")
    return listener


def _answer(listener: int) -> None:
    """A socket for the host's number in vsock is bound to any number instead; all others as they were asked for."""
    asked = fcntl.ioctl(listener, _RECEIVE, bytes(80))
    number, pid = struct.unpack_from("QI", asked)
    (address,) = struct.unpack_from("Q", asked, 40)
    with suppress(OSError, struct.error), open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(address)
        family, _, _, cid = struct.unpack("HHII", memory.read(12))
        if (family, cid) == (socket.AF_VSOCK, _HOST):
            memory.seek(address + 8)
            memory.write(struct.pack("I", _ANY))
    fcntl.ioctl(listener, _SEND, struct.pack("QqiI", number, 0, 0, _CONTINUE))


if __name__ == "__main__":
    main()
