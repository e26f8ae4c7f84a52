"""All rules between a manifest and a cloud config, in one call."""

from __future__ import annotations

from collections.abc import Mapping

from coterie.cpi.contract import Capabilities
from coterie.manifest.document import Mistake
from coterie.manifest.rules.attachments import check_attachments
from coterie.manifest.rules.conductor_groups import check_conductor_groups
from coterie.manifest.rules.forms import FormsOf, check_used_properties
from coterie.manifest.rules.pair import Pair
from coterie.manifest.rules.policies import check_policies
from coterie.manifest.rules.references import check_references
from coterie.manifest.rules.report import Report
from coterie.manifest.rules.room import check_room
from coterie.manifest.rules.statics import check_statics
from coterie.manifest.schema import CloudConfig, Deployment


def check_pair(
    deployment: Report[Deployment],
    config: Report[CloudConfig],
    capabilities: Mapping[str, Capabilities] | None,
    *,
    auto_anti_affinity: bool,
    forms_of: FormsOf | None = None,
) -> list[Mistake]:
    """Adds to both reports; answers all that they then hold."""
    pair = Pair(deployment, config)
    check_references(pair)
    check_conductor_groups(pair)
    check_attachments(pair)
    check_statics(pair)
    check_room(pair)
    if forms_of is not None:
        check_used_properties(pair, forms_of)
    if capabilities:
        check_policies(pair, capabilities, auto_anti_affinity=auto_anti_affinity)
    return sorted([*deployment.mistakes, *config.mistakes])
