"""The fields of the wizard's form, and the manifest that they say. Pure; mistakes are found elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
_MOST_GROUPS = 20


@dataclass(slots=True)
class GroupForm:
    name: str = "web"
    instances: str = "3"
    azs: list[str] = field(default_factory=list)
    vm_type: str = ""
    disk: str = ""
    network: str = ""
    static_ips: str = ""
    policy: str = "soft-anti-affinity"
    server_group: str = ""
    adopt: bool = False
    vm_group: str = ""
    host_group: str = ""
    rule: str = ""
    affine: str = ""
    security_groups: str = ""
    health: str = "none"
    port: str = ""
    path: str = ""


@dataclass(slots=True)
class Form:
    name: str = ""
    stemcell: str = ""
    canaries: str = "1"
    max_in_flight: str = "1"
    serial: bool = True
    resurrection: bool = False
    groups: list[GroupForm] = field(default_factory=lambda: [GroupForm()])


Texts = Callable[[str], Sequence[str]]


def read_form(texts: Texts) -> Form:
    """`texts`: all values that were sent under a name."""

    def one(name: str, default: str = "") -> str:
        return next(iter(texts(name)), default).strip()

    count = one("groups", "1")
    numbers = range(min(_MOST_GROUPS, max(1, int(count) if count.isdigit() else 1)))
    return Form(
        one("name"),
        one("stemcell"),
        one("canaries"),
        one("max_in_flight"),
        one("serial") == "true",
        one("resurrection") == "true",
        [_read_group(texts, f"g{n}_") for n in numbers],
    )


def _read_group(texts: Texts, prefix: str) -> GroupForm:
    def one(name: str) -> str:
        return next(iter(texts(prefix + name)), "").strip()

    words = (name for name in GroupForm.__slots__ if name not in ("azs", "adopt"))
    return GroupForm(
        **{name: one(name) for name in words}, azs=list(texts(f"{prefix}azs")), adopt=one("adopt") == "true"
    )


def write_manifest(form: Form) -> str:
    stemcell, _, version = form.stemcell.partition(" ")
    lines = [
        f"name: {_text(form.name)}",
        "stemcells:",
        f"- {{alias: default, name: {_text(stemcell)}, version: {_quoted(version)}}}",
        "instance_groups:",
    ]
    for group in form.groups:
        lines += _group(group)
    lines += [
        "update:",
        f"  canaries: {_number(form.canaries)}",
        f"  max_in_flight: {_number(form.max_in_flight)}",
        f"  serial: {_flag(form.serial)}",
    ]
    if form.resurrection:
        lines.append("resurrection: true")
    names = sorted({name for group in form.groups for name in _list(group.security_groups)})
    if names:
        lines += ["security_groups:", *(f"- {{name: {_text(name)}}}" for name in names)]
    return "\n".join(lines) + "\n"


def _group(group: GroupForm) -> list[str]:
    lines = [
        f"- name: {_text(group.name)}",
        f"  instances: {_number(group.instances)}",
        f"  azs: [{', '.join(map(_text, group.azs))}]",
        f"  vm_type: {_text(group.vm_type)}",
        "  stemcell: default",
    ]
    if group.disk.isdigit():
        lines.append(f"  persistent_disk: {group.disk}")
    elif group.disk:
        lines.append(f"  persistent_disk_type: {_text(group.disk)}")
    ips = [_quoted(one) for one in _list(group.static_ips)]
    lines += ["  networks:", f"  - name: {_text(group.network)}"]
    lines += [f"    static_ips: [{', '.join(ips)}]"] if ips else []
    security = _list(group.security_groups)
    lines += [f"  security_groups: [{', '.join(map(_text, security))}]"] if security else []
    if group.policy:
        lines += ["  placement:", *_placement(group)]
    if group.health in ("tcp", "http"):
        lines += ["  health:", f"    kind: {group.health}", f"    port: {_number(group.port)}"]
        lines += [f"    path: {_text(group.path)}"] if group.health == "http" and group.path else []
    return lines


def _placement(group: GroupForm) -> list[str]:
    given = [("policy", group.policy), ("server_group", group.server_group), ("vm_group", group.vm_group)]
    given += [("host_group", group.host_group), ("rule", group.rule)]
    lines = [f"    {name}: {_text(value)}" for name, value in given if value]
    lines += [f"    affine: {group.affine}"] if group.affine in ("true", "false") else []
    return [*lines, *(["    adopt: true"] if group.adopt else [])]


def _list(text: str) -> list[str]:
    """Ranges of addresses keep the blanks around their hyphen."""
    return [one.strip() for one in text.split(",") if one.strip()]


def _number(text: str) -> str:
    """A number or a percentage as it is; anything else in quotes, so that it is one value, and a mistake."""
    return text if re.fullmatch(r"\d{1,9}%?", text) else _quoted(text)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _text(value: str) -> str:
    """A plain word as it is, everything else in quotes."""
    return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else _quoted(value)


def _quoted(text: str) -> str:
    """In double quotes, with escapes that YAML knows."""
    return '"' + "".join(one if one.isprintable() and one not in '"\\' else f"\\U{ord(one):08x}" for one in text) + '"'
