"""What fields must say about each other. Every rule reports all it finds and never stops at the first."""

from coterie.manifest.rules.config import check_config
from coterie.manifest.rules.cross import check_pair
from coterie.manifest.rules.deployment import check_deployment
from coterie.manifest.rules.forms import FormsOf
from coterie.manifest.rules.report import Report

__all__ = ["FormsOf", "Report", "check_config", "check_deployment", "check_pair"]
