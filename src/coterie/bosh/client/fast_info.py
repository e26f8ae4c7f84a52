"""`info`, answered before anything heavy is imported, `typing` included: it is half of all calls."""

from __future__ import annotations

import json

# A driver may keep what its `info` says in this file beside its code; without the file the driver is loaded.
FORMATS_FILE = "stemcell_formats.json"
_DRIVERS = __file__.rpartition("/bosh/")[0] + "/cpi/drivers/"
_ENOUGH = 4096  # bytes; a longer request is no plain `info`


def is_info(request: bytes) -> bool:
    """True for a well-formed `info`; the wire answers every other request, and every mistake."""
    if len(request) > _ENOUGH or b'"info"' not in request:
        return False
    try:
        document = json.loads(request)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and _plain(document)


def info(config: str) -> bytes | None:
    """The envelope, or None where the configuration has to be read with care, or only the driver knows its formats."""
    driver, formats = _glance(config)
    known = formats or _formats_of(driver)
    if not isinstance(known, list) or not known:
        return None
    result = {"api_version": 3, "stemcell_formats": known}
    return json.dumps({"result": result, "error": None, "log": ""}).encode()


def _formats_of(driver: str) -> object:
    if not driver.isidentifier():
        return None
    try:
        with open(f"{_DRIVERS}{driver}/{FORMATS_FILE}", encoding="utf-8") as file:  # noqa: PTH123  # as below
            return json.load(file)
    except (OSError, ValueError):
        return None


def _plain(document: dict[str, object]) -> bool:
    version = document.get("api_version", 1)
    return (
        document.get("method") == "info"
        and document.get("arguments") == []
        and isinstance(document.get("context", {}), dict)
        and type(version) is int
        and version >= 1
    )


def _glance(config: str) -> tuple[str, object]:
    """The driver's name and the formats, as far as they can be seen without a parser for YAML."""
    try:
        with open(config, encoding="utf-8") as file:  # noqa: PTH123  # pathlib would cost as much as the whole answer
            text = file.read()
        if text.lstrip().startswith("{"):
            document = json.loads(text)
            return str(document.get("driver")), document.get("stemcell_formats")
    except (OSError, ValueError):
        return "", None
    lines = text.splitlines()
    if any("stemcell_formats" in line for line in lines):  # quoted, too
        return "", None
    return next((line[7:].strip() for line in lines if line.startswith("driver:")), ""), None
