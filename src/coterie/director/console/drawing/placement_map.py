"""The placement map: cloud → az → rack → host as boxes, nodes as cells, coloured and lettered by server group.

Above `DETAIL_HOSTS` hosts a rack is one box with a bar for each group; asked for by name, it is drawn in detail.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import urlencode

from coterie.director.console.drawing import svg

Json = dict[str, Any]
DETAIL_HOSTS = 150
_CELL, _GAP, _PAD = 18, 4, 10
_ROW = 6  # cells in a row of a host
_HOST_W = _ROW * (_CELL + _GAP) + 2 * _PAD - _GAP
_RACK_W, _RACK_H = 148, 64
_WIDTH = 1120
_UNKNOWN = "unknown"
_LETTERS_SHOWN = 2
_DOWN = ("dead", "missing")
_MARGIN, _LINE, _LEGEND_GROUPS = 16, 20, 50
_VERDICTS = {True: "holds:", False: "broken:", None: "unknown:"}
STATE_MARKS = {"failing": "!", "dead": "✕", "missing": "?", "stopped": "◆", "changing": "◐", "planned": "…",
               "deleting": "−"}  # fmt: skip


@dataclass(slots=True)
class _Host:
    """`shown`: by the last check of its cloud. `known`: the nodes' host has a name."""

    name: str
    nodes: list[Json] = field(default_factory=list)
    shown: bool = True
    known: bool = True


@dataclass(frozen=True, slots=True)
class Drawing:
    """`detailed`: hosts and nodes are drawn, not only racks."""

    width: float
    height: float
    parts: list[str]
    label: str
    detailed: bool
    legend: list[str]

    def inline(self) -> str:
        """For a page, whose style sheet has the colours."""
        box = f"0 0 {self.width:.0f} {self.height:.0f}"
        return (
            f'<svg class="map" id="map-picture" viewBox="{box}" width="{self.width:.0f}" height="{self.height:.0f}" '
            f'role="group" aria-label="{escape(self.label)}">{"".join(self.parts)}</svg>'
        )

    def file(self) -> str:
        """A file of its own, with a margin, and with what letters and signs mean."""
        below = svg.element("g", *self.legend, transform=f"translate(0 {self.height + _LINE:.0f})")
        inside = svg.element("g", *self.parts, below, transform=f"translate({_MARGIN} {_MARGIN})")
        height = self.height + _LINE * (len(self.legend) + 1) + 2 * _MARGIN
        return svg.file(self.width + 2 * _MARGIN, height, self.label, [inside], _RULES)


def letters(groups: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Of each group, by intent: its number, which gives letter and colour."""
    return {group["intent"]: n for n, group in enumerate(groups)}


def draw(found: Mapping[str, Any], links: bool = True) -> Drawing:
    """`found`: as `GET /v1/placement/map` answers; without hosts and nodes, racks are drawn. `links`: of a page."""
    numbers = letters(found["groups"])
    detailed = bool(found["nodes"] or found["hosts"])
    by_cloud: dict[str, dict[str, list[Json]]] = defaultdict(lambda: defaultdict(list))
    for rack in found["racks"]:
        by_cloud[rack["cloud"]][rack["az"] or _UNKNOWN].append(rack)
    hosts = _hosts_of(found)
    parts: list[str] = []
    y = 0.0
    for cloud, azs in by_cloud.items():
        parts.append(svg.text(0, y + 18, f"cloud {cloud}", "map-cloud"))
        y += 30
        for az, racks in azs.items():
            parts.append(svg.text(0, y + 14, f"az {az}", "map-az"))
            y += 22
            made, height = _detail(racks, hosts, y, numbers, links) if detailed else _overview(racks, y, numbers, links)
            parts += made
            y += height + 14
    totals = [sum(rack[name] for rack in found["racks"]) for name in ("nodes", "hosts")]
    label = f"Placement map: {_count(totals[0], 'node')}; {_count(totals[1], 'host')} known"
    return Drawing(_WIDTH, max(y, 40), parts, label, detailed, _legend(found["groups"], detailed))


def _legend(groups: Sequence[Json], detailed: bool) -> list[str]:
    """A line each."""
    signs = ", ".join(f"{sign} {word}" for word, sign in STATE_MARKS.items())
    share = "A bar: how many of a rack's nodes are of which server group, by colour. ✕: how many are unhealthy."
    cell = f"A cell is a node, with the letter of its server group (· none), and a sign where it is not up: {signs}."
    lines = [svg.text(0, 0, cell if detailed else share, "map-name small")]
    for n, one in enumerate(groups[:_LEGEND_GROUPS]):
        words = f"{one['deployment']}/{one['name']} in {one['cloud']}: {_verdict(one)}"
        box = svg.element("rect", y=_LINE * (n + 1) - 14, width=_CELL, height=_CELL, rx=3)
        mark = svg.text(_CELL / 2, _LINE * (n + 1), svg.letter(n)[:_LETTERS_SHOWN], "map-letter", text_anchor="middle")
        swatch = svg.element("g", box, mark, class_=f"map-node g{n % len(svg.FILLS)}")
        lines.append(swatch + svg.text(_CELL + 8, _LINE * (n + 1), svg.cut(words, 150), "map-name"))
    if len(groups) > _LEGEND_GROUPS:
        more = f"{len(groups) - _LEGEND_GROUPS} more groups: choose a deployment"
        lines.append(svg.text(0, _LINE * len(lines), more, "map-name small"))
    return lines


def document(drawing: Drawing, found: Mapping[str, Any]) -> str:
    """A page of its own: the picture, and the promises in words."""
    picture = drawing.file().partition("?>\n")[2]
    rows = "".join(
        f"<tr><td>{svg.letter(n)}</td><td>{escape(one['deployment'])}/{escape(one['name'])}</td>"
        f"<td>{escape(one['policy'] or 'none')}: {escape(one['promise'])}</td>"
        f"<td>{escape(_verdict(one))}</td></tr>"
        for n, one in enumerate(found["groups"])
    )
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Placement map</title>'
    style = "<style>body{font-family:sans-serif;margin:24px}td,th{text-align:left;padding:4px 16px 4px 0}</style>"
    return (
        f'<!doctype html><html lang="en"><head>{head}{style}</head><body><h1>{escape(drawing.label)}</h1>{picture}'
        "<h2>Server groups and their promises</h2><table><thead><tr><th>Sign</th><th>Group</th><th>Promise</th>"
        f"<th>Verdict</th></tr></thead><tbody>{rows}</tbody></table></body></html>\n"
    )


def _verdict(group: Mapping[str, Any]) -> str:
    down = ", ".join(f"{node} ({what})" for node, what in (group.get("down") or {}).items())
    return f"{_VERDICTS[group['holds']]} {group['why']}{f'; down: {down}' if down else ''}"


def _hosts_of(found: Mapping[str, Any]) -> dict[str, list[_Host]]:
    """By the key of their rack; hosts without a known place are among those of an unknown rack."""
    hosts: dict[tuple[str, str], _Host] = {}
    of_rack: dict[str, list[_Host]] = defaultdict(list)
    for one in found["hosts"]:
        made = hosts[one["cloud"], one["name"]] = _Host(one["name"])
        of_rack[_key(one)].append(made)
    for node in found["nodes"]:
        name = node["host"] or "host unknown"
        place = (node["cloud"], name) if node["host"] else (node["cloud"], f"{node['az']} {name}")
        if place not in hosts:
            hosts[place] = _Host(name, shown=False, known=bool(node["host"]))
            of_rack[_key(node)].append(hosts[place])
        hosts[place].nodes.append(node)
    return of_rack


def _key(thing: Mapping[str, Any]) -> str:
    return f"{thing['cloud']}/{thing['az'] or _UNKNOWN}/{thing['rack']}"


def _detail(
    racks: Sequence[Json], hosts_of: dict[str, list[_Host]], top: float, numbers: dict[str, int], links: bool
) -> tuple[list[str], float]:
    """Racks as frames with their hosts side by side; as many in a row as fit."""
    parts: list[str] = []
    x, y, height = 0.0, top, 0.0
    for rack in racks:
        hosts = hosts_of[rack["key"]]
        across = max(1, min(len(hosts), int((_WIDTH - 2 * _PAD) // (_HOST_W + _PAD))))
        rows = [hosts[n : n + across] for n in range(0, len(hosts), across)]
        heights = [max(_host_height(host) for host in row) + _PAD for row in rows]
        wide, high = across * (_HOST_W + _PAD) + _PAD, sum(heights) + 30
        if x and x + wide > _WIDTH:
            x, y, height = 0.0, y + height + _PAD, 0.0
        parts.append(_rack_frame(rack, x, y, wide, high))
        at = y + 26
        for row, tall in zip(rows, heights, strict=True):
            for n, host in enumerate(row):
                parts.append(_host(host, rack, x + _PAD + n * (_HOST_W + _PAD), at, tall - _PAD, numbers, links))
            at += tall
        x, height = x + wide + _PAD, max(height, high)
    return parts, y + height - top


def _host_height(host: _Host) -> float:
    rows = max(1, -(-len(host.nodes) // _ROW))
    return 24 + rows * (_CELL + _GAP) + 6


def _rack_frame(rack: Json, x: float, y: float, wide: float, high: float) -> str:
    kind = "map-rack unknown" if rack["rack"] == _UNKNOWN else "map-rack"
    name = f"rack {rack['rack']}"
    label = f"{name}: {_loss(rack['nodes'], rack.get('down', 0))}"
    frame = svg.element("rect", x=x, y=y, width=wide, height=high, rx=6, class_=kind)
    words = svg.text(x + _PAD, y + 17, svg.cut(name, int(wide / 7)), "map-name")
    inside = svg.title(label) + frame + words
    return svg.element("g", inside, class_="map-zone", data_rack=rack["key"], data_say=label, tabindex=0, role="img",
                       aria_label=label)  # fmt: skip


def _host(host: _Host, rack: Json, x: float, y: float, high: float, numbers: dict[str, int], links: bool) -> str:
    groups = Counter(node["group"] for node in host.nodes if node["group"])
    down = [node for node in host.nodes if node["state"] in _DOWN]
    is_down = not host.shown and bool(down) and len(down) == len(host.nodes)
    label = f"{'host ' if host.known else ''}{host.name}{': down' if is_down else ''}"
    label += f": {_loss(len(host.nodes), len(down))}"
    named = [node["node"] for node in host.nodes if node not in down] or [node["node"] for node in down]
    if named:
        label += f" ({', '.join(named[:12])}{', …' if len(named) > 12 else ''})"
    doubled = max(groups.values(), default=0)
    kind = "map-host" if host.shown else "map-host unknown"
    cells = "".join(
        _cell(node, x + _PAD + (n % _ROW) * (_CELL + _GAP), y + 24 + (n // _ROW) * (_CELL + _GAP), numbers)
        for n, node in enumerate(host.nodes)
    )
    frame = svg.element("rect", x=x, y=y, width=_HOST_W, height=high, rx=5, class_=kind)
    name = f"{svg.cut(host.name, 13)}, down" if is_down else svg.cut(host.name, 19)
    words = svg.text(x + _PAD, y + 16, name, "map-name small")
    return svg.element(
        "g", svg.title(label), frame, words, cells,
        class_="map-zone", data_host=f"{rack['cloud']}/{host.name}", data_rack=rack["key"], data_say=label,
        data_doubled=doubled if doubled > 1 else None, tabindex=0 if links else None, role="img", aria_label=label,
    )  # fmt: skip


def _cell(node: Json, x: float, y: float, numbers: dict[str, int]) -> str:
    number = numbers.get(node["group"] or "")
    letter = "·" if number is None else svg.letter(number)[:_LETTERS_SHOWN]
    mark = letter + STATE_MARKS.get(node["state"], "")
    bad = node["state"] in ("failing", "dead", "missing")
    kind = f"map-node {'none' if number is None else f'g{number % len(svg.FILLS)}'}{' bad' if bad else ''}"
    label = f"{node['deployment'] or 'enrolled'}/{node['node']} ({node['state']})"
    box = svg.element("rect", x=x, y=y, width=_CELL, height=_CELL, rx=3)
    words = svg.text(x + _CELL / 2, y + _CELL / 2 + 4, mark, "map-letter", text_anchor="middle")
    return svg.element("g", svg.title(label), box, words, class_=kind, data_group=node["group"], data_node=label)


def _overview(racks: Sequence[Json], top: float, numbers: dict[str, int], links: bool) -> tuple[list[str], float]:
    """Racks as tiles: hosts, nodes, and a bar of the groups. A click leads into the rack."""
    across = int(_WIDTH // (_RACK_W + 8))
    parts = []
    for n, rack in enumerate(racks):
        x, y = (n % across) * (_RACK_W + 8), top + (n // across) * (_RACK_H + 8)
        parts.append(_tile(rack, x, y, numbers, links))
    return parts, -(-len(racks) // across) * (_RACK_H + 8)


def _tile(rack: Json, x: float, y: float, numbers: dict[str, int], links: bool) -> str:
    by_group: Counter[str] = Counter(rack["groups"])
    bad = rack["unhealthy"]
    label = (
        f"rack {rack['rack']}: {_count(rack['hosts'], 'host')}; {_loss(rack['nodes'], rack.get('down', 0))}"
        f" of {_count(len([one for one in by_group if one]), 'group')}{f', {bad} of them unhealthy' if bad else ''}"
    )
    inside = [
        svg.title(label),
        svg.element("rect", x=x, y=y, width=_RACK_W, height=_RACK_H, rx=6,
                    class_="map-rack unknown" if rack["rack"] == _UNKNOWN else "map-rack"),
        svg.text(x + 8, y + 17, svg.cut(rack["rack"], 17), "map-name"),
        svg.text(x + 8, y + 33, f"{rack['hosts']} hosts · {rack['nodes']} nodes", "map-name small"),
    ]  # fmt: skip
    if bad:
        inside.append(svg.text(x + _RACK_W - 8, y + 17, f"✕ {bad}", "map-bad", text_anchor="end"))
    at = x + 8.0
    for group, count in by_group.most_common(12):
        wide = (_RACK_W - 16) * count / max(1, rack["nodes"])
        number = numbers.get(group)
        kind = "none" if number is None else f"g{number % len(svg.FILLS)}"
        bar = svg.element("rect", x=round(at, 1), y=y + 42, width=round(max(1.0, wide), 1), height=14)
        inside.append(svg.element("g", bar, class_=f"map-node {kind}", data_group=group or None))
        at += wide
    about = {"class_": "map-zone", "data_rack": rack["key"], "data_say": label, "role": "img", "aria_label": label}
    tile = svg.element("g", *inside, **about)
    if not links:
        return tile
    return svg.element("a", tile, href=f"/placement?{urlencode({'rack': rack['key']})}", aria_label=label)


def _loss(nodes: int, down: int) -> str:
    """What the loss of a place would take down; what is down already is not lost again."""
    if down and down == nodes:
        return f"{_count(down, 'node')} down already"
    return f"its loss takes down {_count(nodes - down, 'node')}{f', {down} down already' if down else ''}"


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"


_RULES = (
    f"text{{font-family:sans-serif;font-size:12px;fill:{svg.INK}}}.map-cloud{{font-size:16px;font-weight:600}}"
    f".map-az{{font-size:13px;fill:{svg.MUTED}}}.small{{font-size:11px;fill:{svg.MUTED}}}"
    f".map-rack{{fill:#f3f5f8;stroke:{svg.LINE}}}.map-host{{fill:#fff;stroke:{svg.LINE}}}"
    ".unknown{stroke-dasharray:4 3}.map-letter{fill:#fff;font-size:10px;font-weight:600}"
    ".map-node.none rect{fill:#6b7683}"
    ".map-bad{fill:#b3261e;font-weight:600}.map-node.bad rect{stroke:#b3261e;stroke-width:3}"
    + "".join(f".g{n} rect{{fill:{fill}}}" for n, fill in enumerate(svg.FILLS))
)
