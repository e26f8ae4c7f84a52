"""YAML text as a tree of values with their lines and columns. Independent of manifests."""

from coterie.manifest.tree.build import MAX_DEPTH, MAX_VALUES
from coterie.manifest.tree.flaw import Flaw, Spoilt
from coterie.manifest.tree.node import Loc, Node
from coterie.manifest.tree.path import Fields
from coterie.manifest.tree.read import MAX_BYTES, Reading, read

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "Fields", "Flaw", "Loc", "Node", "Reading", "Spoilt", "read"]
