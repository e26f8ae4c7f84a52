"""Manifests and cloud configs: text in, checked values out, each mistake with its line. No I/O, no cloud, no ledger."""

from coterie.manifest.explain import Explanation, explain
from coterie.manifest.load import check, load_both, load_cloud_config, load_deployment
from coterie.manifest.loaded import Loaded
from coterie.manifest.mistake import Mistake, invalid
from coterie.manifest.resolve import resolve
from coterie.manifest.rules import FormsOf
from coterie.manifest.schema import SEALED, CloudConfig, Deployment
from coterie.manifest.server_groups import ServerGroupWish
from coterie.manifest.wish import (
    AzWish,
    DiskWish,
    GroupWish,
    HealthWish,
    NetworkWish,
    StemcellWish,
    SubnetWish,
    UpdateWish,
)

__all__ = [
    "SEALED",
    "AzWish",
    "CloudConfig",
    "Deployment",
    "DiskWish",
    "Explanation",
    "FormsOf",
    "GroupWish",
    "HealthWish",
    "Loaded",
    "Mistake",
    "NetworkWish",
    "ServerGroupWish",
    "StemcellWish",
    "SubnetWish",
    "UpdateWish",
    "check",
    "explain",
    "invalid",
    "load_both",
    "load_cloud_config",
    "load_deployment",
    "resolve",
]
