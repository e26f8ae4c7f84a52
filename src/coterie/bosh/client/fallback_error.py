"""The envelope for what nobody foresaw: a broken installation, an interrupt. Standard library only."""

from __future__ import annotations

import json


def envelope(error: BaseException) -> bytes:
    """Names the kind of failure, not its text: nothing here could take secrets out of it."""
    message = (
        f"coterie-cpi could not work ({type(error).__name__}). "
        "Run `coterie-cpi check --config FILE` as the same user, and install the release again if it fails too"
    )
    told = {"type": "Bosh::Clouds::CloudError", "message": message, "ok_to_retry": False}
    return json.dumps({"result": None, "error": told, "log": ""}).encode()
