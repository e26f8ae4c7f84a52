"""Parser events → nodes, iteratively and within limits, so that no text can exhaust memory or the stack."""

from __future__ import annotations

from typing import NoReturn

from ruamel.yaml import events

from coterie.manifest.tree.flaw import Flaw, Unreadable
from coterie.manifest.tree.frame import Frame
from coterie.manifest.tree.merge import MERGE, merge
from coterie.manifest.tree.node import Loc, Node, Place
from coterie.manifest.tree.scalar import Unusable, is_known_collection, join_surrogates, scalar, storable

MAX_DEPTH = 32
MAX_VALUES = 1_000_000
MAX_MAPPINGS = 10_000  # in one list: instance groups, of which each costs milliseconds


class Builder:
    """Takes the events of one document. `root` is set when the first node begins, `flaws` is what was survivable."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.flaws: list[Flaw] = []
        self._frames: list[Frame] = []
        self._anchors: dict[str, Node | None] = {}  # None: the anchored value is still open
        self._values = 0

    def take(self, event: events.Event) -> None:
        if isinstance(event, events.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, events.AliasEvent):
            self._alias(event)
        elif isinstance(event, events.CollectionStartEvent):
            self._open(event)
        elif isinstance(event, events.CollectionEndEvent):
            self._close()

    def _scalar(self, event: events.ScalarEvent) -> None:
        event.value = join_surrogates(event.value)
        node = Node(*self._place(event), value=storable(event.value))
        if self._frames and self._frames[-1].wants_key:
            self._key(node)
            self._frames[-1].merges |= event.value == MERGE and event.style is None
            self._set_value(node, event)
            if not isinstance(node.value, str):
                self._flaw(node.place, f"the key '{event.value}' is not text", f'write "{event.value}" in quotes')
            return
        self._attach(node)
        self._set_value(node, event)
        self._end_value()

    def _set_value(self, node: Node, event: events.ScalarEvent) -> None:
        """Turn the text of a scalar into its value."""
        try:
            node.value = scalar(event.value, plain=event.style is None, tag=event.tag)
        except Unusable as unusable:
            self._flaw(
                node.place,
                str(unusable),
                unusable.remedy,
            )
        if event.anchor:
            self._anchors[event.anchor] = node

    def _place(self, event: events.ScalarEvent) -> Place:
        """Of a value that is not there, the place of its key: the parser would name the next line."""
        frame = self._frames[-1] if self._frames else None
        if event.value == "" and event.style is None and frame and frame.key is not None and frame.node.keys:
            return frame.node.keys[frame.key]
        return place_of(event)

    def _alias(self, event: events.AliasEvent) -> None:
        place = place_of(event)
        node = self._find_anchor(str(event.anchor), place)
        if self._frames[-1].wants_key:
            return self._key(Node(*place, value=node.value))
        if len(self._frames) + node.height > MAX_DEPTH:
            self._too_deep(place)
        self._attach(node)
        return self._end_value()

    def _find_anchor(self, name: str, place: Place) -> Node:
        if name not in self._anchors:
            # Not named: a password that begins with a `*` is read as an alias.
            self._stop(place, "no anchor has the name of this alias", "define it above this line, or quote the text")
        node = self._anchors[name]
        if node is None:
            self._stop(place, f"the alias *{name} stands inside the value that it stands for", "write the value out")
        return node

    def _key(self, node: Node) -> None:
        if not isinstance(node.value, str):
            self._stop(node.place, "an alias of something that is not text is used as a key", "write the key out")
        first = self._frames[-1].name(node.value, node.place)
        if first:
            what = f"the key '{node.value}' is given twice, first in line {first[0]}"
            self._flaw(node.place, what, "keep one of the two", spoils=False)

    def _open(self, event: events.CollectionStartEvent) -> None:
        place = place_of(event)
        if self._frames and self._frames[-1].wants_key:
            self._stop(place, "a list or mapping is used as a key", "use plain text as the key")
        if len(self._frames) >= MAX_DEPTH:
            self._too_deep(place)
        node = Node(*place, value={} if isinstance(event, events.MappingStartEvent) else [])
        self._attach(node)
        if not is_known_collection(event.tag):
            self._flaw(place, "the tag of this list or mapping is not understood", "remove the tag")
        if event.anchor:
            self._anchors[event.anchor] = None
        self._frames.append(Frame(node, event.anchor))

    def _close(self) -> None:
        frame = self._frames.pop()
        node = frame.finish()
        if frame.merges:
            self.flaws.extend(merge(node, self._loc()))
        if frame.anchor:
            self._anchors[frame.anchor] = node
        self._end_value()

    def _attach(self, node: Node) -> None:
        self._values += node.size
        if self._values > MAX_VALUES:
            what = f"the document has more than {MAX_VALUES:,} values, counting each alias in full"
            self._stop(node.place, what, "write less, or use fewer aliases of large values")
        if self._frames:
            self._refuse_long_list(node)
            self._frames[-1].put(node)
        else:
            self.root = node

    def _refuse_long_list(self, node: Node) -> None:
        held = self._frames[-1].node.value
        if isinstance(held, list) and len(held) >= MAX_MAPPINGS and isinstance(node.value, dict):
            what = f"the list has more than {MAX_MAPPINGS:,} mappings"
            self._stop(node.place, what, "split the document: several deployments, or fewer and larger groups")

    def _end_value(self) -> None:
        """The value just read is complete: in a mapping, a key comes next."""
        if self._frames:
            self._frames[-1].key = None

    def _too_deep(self, place: Place) -> NoReturn:
        self._stop(place, f"values are nested more than {MAX_DEPTH} levels deep", "flatten the document")

    def _flaw(self, place: Place, what: str, remedy: str, *, spoils: bool = True) -> None:
        self.flaws.append(Flaw(self._loc(), place, what, remedy, spoils))

    def _stop(self, place: Place, what: str, remedy: str) -> NoReturn:
        """Only ever about a value that was not put into the tree yet."""
        frames = self._frames
        loc = (*(frame.here() for frame in frames[:-1]), *frames[-1].coming()) if frames else ()
        raise Unreadable(Flaw(loc, place, what, remedy))

    def _loc(self) -> Loc:
        return tuple(frame.here() for frame in self._frames)


def place_of(event: events.Event) -> Place:
    """Line and column, counted from 1 as editors do."""
    return event.start_mark.line + 1, event.start_mark.column + 1
