"""Manifests and cloud configs: text in, checked values out, each mistake with its line. No I/O, no cloud, no ledger."""

from coterie.manifest.document import Loaded, Mistake, invalid
from coterie.manifest.explain import Explanation, explain
from coterie.manifest.load import check, load_both, load_cloud_config, load_deployment
from coterie.manifest.resolve import resolve
from coterie.manifest.rules import FormsOf
from coterie.manifest.schema import SEALED, CloudConfig, Deployment
from coterie.manifest.server_groups import ServerGroupSpec
from coterie.manifest.spec import (
    AzSpec,
    DiskSourceSpec,
    HealthCheckSpec,
    InstanceGroupSpec,
    MigrationSpec,
    NetworkSpec,
    PersistentDiskSpec,
    StemcellSpec,
    SubnetSpec,
    UpdateSpec,
)

__all__ = [
    "SEALED",
    "AzSpec",
    "CloudConfig",
    "Deployment",
    "DiskSourceSpec",
    "Explanation",
    "FormsOf",
    "HealthCheckSpec",
    "InstanceGroupSpec",
    "Loaded",
    "MigrationSpec",
    "Mistake",
    "NetworkSpec",
    "PersistentDiskSpec",
    "ServerGroupSpec",
    "StemcellSpec",
    "SubnetSpec",
    "UpdateSpec",
    "check",
    "explain",
    "invalid",
    "load_both",
    "load_cloud_config",
    "load_deployment",
    "resolve",
]
