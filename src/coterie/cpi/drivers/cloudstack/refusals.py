"""CloudStack's refusals as errors of the contract, by their numbers; its words are only passed on, never parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coterie.cpi import contract
from coterie.cpi.contract import CpiError
from coterie.cpi.kit.calls import contract_errors

PARAMETER, INTERNAL, CAPACITY, IN_USE, CONFLICT = 431, 530, 533, 536, 537
_CLASSES: dict[int, type[CpiError]] = {
    401: contract.AuthenticationFailed,
    429: contract.Throttled,
    430: contract.InvalidCall,
    431: contract.InvalidCall,
    432: contract.PrivilegeMissing,
    503: contract.Unavailable,
    531: contract.PrivilegeMissing,
    532: contract.QuotaExceeded,
    533: contract.NoPlacement,
    535: contract.QuotaExceeded,
}
_REMEDIES = {
    401: "check properties.api_key and properties.secret_access_key, and this machine's clock",
    429: "wait, then repeat",
    430: "correct the value that CloudStack names",
    431: "correct the value that CloudStack names",
    432: "use an account that may call it, or a CloudStack that has it",
    503: "wait, then repeat",
    531: "use an account that may do it, or ask an administrator for the right",
    532: "free some, or ask an administrator for a higher limit",
    533: "free or add hosts and addresses, ask for less, or use a soft policy",
    534: "wait, then repeat; if it stays so, ask an administrator",
    535: "free some, or ask an administrator for a higher limit",
    536: "find out what uses it, and end that first",
    537: "use another address, or end the other rule first",
}
_PASSING = {INTERNAL, 534}  # may well go away by itself


class Refusal(Exception):
    """What CloudStack answered; inside the driver only, and always translated before it leaves."""

    def __init__(self, command: str, code: int, text: str) -> None:
        super().__init__(f"{command}: {code} {text}")
        self.command, self.code, self.text = command, code, text


def refusal(command: str, body: Mapping[str, Any], status: int) -> Refusal:
    return Refusal(command, int(body.get("errorcode") or status), str(body.get("errortext") or f"HTTP {status}"))


def translate(error: Refusal) -> CpiError:
    kind = _CLASSES.get(error.code, CpiError)
    return kind(
        f"CloudStack refused {error.command} ({error.code})",
        why=error.text,
        remedy=_REMEDIES.get(error.code, "repeat; if it happens again, look at CloudStack's log"),
        retryable=True if error.code in _PASSING else None,
    )


cloud_call = contract_errors(Refusal, translate)
