"""`check` of an exec cloud: what can be learnt of a foreign program without touching its cloud."""

from __future__ import annotations

import os
from pathlib import Path

from coterie.cpi.contract import CheckItem, CpiError, Json, Needs
from coterie.cpi.drivers.exec.limits import UNSUPPORTED
from coterie.cpi.drivers.exec.program import Program


def look(path: str, program: Program, needs: Needs | None) -> list[CheckItem]:
    return [_executable(path), *_introduction(program), *_needs(needs or Needs())]


def _executable(path: str) -> CheckItem:
    ok = Path(path).is_file() and os.access(path, os.X_OK)
    detail = f"{path} is {'an' if ok else 'no'} executable file"
    return CheckItem("program", ok, detail, "" if ok else "correct `path`, or make the file executable")


def _introduction(program: Program) -> list[CheckItem]:
    try:
        info = program.info()
    except CpiError as error:
        return [CheckItem("info", False, str(error), error.remedy)]
    version = f"api_version {info['api_version']} is spoken with the program"
    return [CheckItem("info", True, version, facts=info), _formats(info)]


def _formats(info: Json) -> CheckItem:
    formats = info["stemcell_formats"]
    if formats:
        return CheckItem("stemcell formats", True, ", ".join(formats))
    return CheckItem("stemcell formats", False, "the program names none", "install a release of the CPI that does")


def _needs(needs: Needs) -> list[CheckItem]:
    remedy = "place these instance groups in a cloud whose driver is not `exec`"
    groups = UNSUPPORTED["create_server_group"].why
    refused = [CheckItem(f"policy {policy}", False, groups, remedy) for policy in needs.policies]
    kinds = [kind for kind in needs.kinds if kind in ("server_group", "security_group")]
    return refused + [CheckItem(f"kind {kind}", False, groups, remedy) for kind in kinds]
