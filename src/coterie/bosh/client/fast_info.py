"""`info`, answered before anything heavy is imported, `typing` included: it is half of all calls."""

from __future__ import annotations

import json

# What the drivers' own `info` says, so that it need not be asked; a driver that is not listed is asked.
FORMATS = {
    "cloudstack": [f"cloudstack-{one}" for one in ("qcow2", "raw", "vhd", "vhdx", "ova", "light")],
    "sandbox": ["sandbox", "sandbox-light"],
}
_ENOUGH = 4096  # a longer request is no plain `info`


def is_info(request: bytes) -> bool:
    """True for a well-formed `info`; every other request, and every mistake, is for the wire to judge."""
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
    known = formats or FORMATS.get(driver)
    if not isinstance(known, list) or not known:
        return None
    result = {"api_version": 3, "stemcell_formats": known}
    return json.dumps({"result": result, "error": None, "log": ""}).encode()


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
    if any(line.startswith("stemcell_formats") for line in lines):
        return "", None
    return next((line[7:].strip() for line in lines if line.startswith("driver:")), ""), None
