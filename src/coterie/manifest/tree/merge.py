"""YAML's merge key: `<<: *defaults` takes over what the mapping does not say itself."""

from __future__ import annotations

from collections.abc import Iterator

from coterie.manifest.tree.flaw import Flaw
from coterie.manifest.tree.node import Loc, Node

MERGE = "<<"


def merge(node: Node, loc: Loc) -> Iterator[Flaw]:
    """Resolve the merge key of a finished mapping in place; places stay those of the lines that were written."""
    if not isinstance(node.value, dict) or not node.keys or MERGE not in node.value:
        return
    place = node.keys.pop(MERGE)
    source = node.value.pop(MERGE)
    for mapping in source.value if isinstance(source.value, list) else [source]:
        if not isinstance(mapping.value, dict):
            yield Flaw(
                (*loc, MERGE), place, "'<<' merges something that is not a mapping", "give it an alias of a mapping"
            )
            continue
        for key, child in mapping.value.items():
            node.keys.setdefault(key, (mapping.keys or {}).get(key, child.place))
            node.value.setdefault(key, child)
