"""`coterie nodes`."""

from coterie.cli.nodes import act, enroll  # noqa: F401 - their verbs join the noun
from coterie.cli.nodes.noun import nodes

__all__ = ["nodes"]
