"""The sandbox driver served as if it were a foreign BOSH CPI: its methods only, no marks, no facts of ours in errors.

As a program its arguments are: the folder of the package, the state file, the account, the highest api_version.
"""

from __future__ import annotations

import json
import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from coterie.cpi.contract import Cpi, Json, Mark, Runtime
from coterie.cpi.drivers.sandbox.driver import SandboxCpi
from coterie.cpi.wire import answer
from coterie.ids import Ids

OURS = {
    "capabilities",
    "check",
    "find",
    "survey",
    "delete_object",
    "cleanup",
    "create_server_group",
    "update_server_group",
    "delete_server_group",
    "inspect_server_group",
}


def respond(raw: bytes, state: str, account: str, highest: int) -> bytes:
    def open_cpi(context: Json) -> Cpi:
        runtime = Runtime(context["director_uuid"], None)  # type: ignore[arg-type] # its groups are direct
        return SandboxCpi("abroad", {"state": state, "account": account}, runtime)

    envelope = json.loads(answer(_as_foreign(raw, highest), open_cpi, _new_mark))
    if isinstance(envelope["result"], dict) and "stemcell_formats" in envelope["result"]:
        envelope["result"]["api_version"] = highest
    if envelope["error"]:
        del envelope["error"]["coterie"]
    return json.dumps(envelope).encode()


def _as_foreign(raw: bytes, highest: int) -> bytes:
    request = json.loads(raw)
    request["context"].pop("coterie", None)
    if request["method"] in OURS or request.get("api_version", 1) > highest:
        request["method"] = f"unknown {request['method']}"
    return json.dumps(request).encode()


def _new_mark(method: str, arguments: list[object], context: Json) -> Mark:
    return Mark(context["director_uuid"], Ids().intent())


if __name__ == "__main__":
    sys.stdout.buffer.write(respond(sys.stdin.buffer.read(), sys.argv[2], sys.argv[3], int(sys.argv[4])))
