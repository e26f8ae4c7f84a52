"""The shape of the two documents, field by field, with the words that `explain` and the reference print.

Only what one field can say about itself; what fields must say about each other is in `manifest.rules`.
"""

from coterie.manifest.schema.cloud_config import SEALED, Az, Cloud, CloudConfig, DiskType, VmType
from coterie.manifest.schema.deployment import Deployment, Features, Stemcell
from coterie.manifest.schema.health import Health
from coterie.manifest.schema.instance_group import GroupNetwork, InstanceGroup
from coterie.manifest.schema.network import Network, Subnet
from coterie.manifest.schema.part import Part
from coterie.manifest.schema.placement import Placement
from coterie.manifest.schema.security import SecurityGroupSpec, SecurityRule
from coterie.manifest.schema.update import Update

__all__ = [
    "SEALED",
    "Az",
    "Cloud",
    "CloudConfig",
    "Deployment",
    "DiskType",
    "Features",
    "GroupNetwork",
    "Health",
    "InstanceGroup",
    "Network",
    "Part",
    "Placement",
    "SecurityGroupSpec",
    "SecurityRule",
    "Stemcell",
    "Subnet",
    "Update",
    "VmType",
]
