"""The door to pyVmomi, opened on first use: `sdk.vim`, `sdk.vmodl`, `sdk.SoapStubAdapter`.

Nothing else of this driver imports it, so that a program that only asks what the driver is does not pay for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from coterie.cpi.contract import CpiError


def __getattr__(name: str) -> Any:
    try:
        return getattr(import_module("pyVmomi"), name)
    except ImportError as error:
        raise CpiError(
            "pyVmomi is not installed", why=str(error), remedy="install coterie with its extra: coterie[vsphere]"
        ) from error
