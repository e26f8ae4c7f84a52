"""What to do about a server group that is not as it was made: what works depends on what its cloud can do."""

from __future__ import annotations

REPAIR = "`coterie groups repair NAME`"
ANEW = "deploy again, which makes the group and its nodes anew"
IN_PLACE = f"{REPAIR}, or deploy again"


def remedy(state: str, *, moves_members: bool, adopted: bool, other_policy: bool = False) -> str:
    """`moves_members`: living VMs can join a group that is made again. `other_policy`: the cloud's is not the one that
    was promised; a policy is fixed for life, so only another group has the right one."""
    if state not in ("missing", "drifted"):
        return ""
    if adopted:
        return "have the operator restore it, or change placement in the manifest; then deploy again"
    if state == "missing":
        return IN_PLACE if moves_members else ANEW
    if other_policy:
        return ANEW if not moves_members else "deploy again, which makes the group anew"
    return REPAIR
