"""`coterie nodes`."""

from coterie.cli.nodes import enroll  # noqa: F401 - its verbs join the noun
from coterie.cli.nodes.noun import nodes

__all__ = ["nodes"]
