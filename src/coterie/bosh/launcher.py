"""Writes the program that a BOSH Director runs: an absolute interpreter, no site packages before they are needed."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import coterie
from coterie.bosh.config import load
from coterie.errors import UsageError

_PROGRAM = """\
#!{python} -IS
import sys

sys.path.insert(0, {source!r})
from coterie.bosh.client.client import main

main({config!r}, {core!r}, {folders!r})
"""


def write(config: str, file: str) -> int:
    """The configuration must be readable now: its socket's path goes into the program."""
    loaded = load(config)
    target = Path(file)
    try:
        target.write_text(program(str(Path(config).absolute()), loaded.socket), encoding="utf-8")
        target.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{file} cannot be written", why=str(error.strerror), remedy="name another path") from None
    return 0


def program(config: str, core: str) -> str:
    """Its text, for this interpreter and this installation."""
    source = str(Path(coterie.__file__).parents[1])
    folders = tuple(dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))))
    return _PROGRAM.format(python=sys.executable, source=source, config=config, core=core, folders=folders)
