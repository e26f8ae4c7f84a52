"""Strategies for random valid pairs of documents, as plain data."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9, width=32) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
MAPPINGS = st.dictionaries(TEXT, JSON, max_size=3)
TAGS = st.dictionaries(TEXT.filter(bool), TEXT, max_size=3)


def names(least: int = 1, most: int = 3) -> st.SearchStrategy[list[str]]:
    return st.lists(NAMES, min_size=least, max_size=most, unique=True)


@st.composite
def configs(draw: st.DrawFn) -> Document:
    clouds, azs = draw(names()), draw(names())
    return {
        "clouds": [{"name": name, "driver": "sandbox", "properties": draw(MAPPINGS)} for name in clouds],
        "azs": [
            {"name": name, "cloud": draw(st.sampled_from(clouds)), "cloud_properties": draw(MAPPINGS)} for name in azs
        ],
        "vm_types": [{"name": name, "cloud_properties": draw(MAPPINGS)} for name in draw(names())],
        "disk_types": [{"name": name, "disk_size": draw(st.integers(1, 10**6))} for name in draw(names())],
        "networks": [draw(networks(name, n, azs)) for n, name in enumerate(draw(names()))],
    }


@st.composite
def networks(draw: st.DrawFn, name: str, n: int, azs: list[str]) -> Document:
    if draw(st.booleans()):
        return {"name": name, "type": "dynamic", "dns": ["10.0.0.53"]}
    prefix = f"10.{n}" if draw(st.booleans()) else f"2001:db8:{n}:"
    dot = "." if prefix.startswith("10") else ":"
    subnets = [
        {
            "range": f"{prefix}{dot}{i}.0/24" if dot == "." else f"{prefix}{i + 1}::/64",
            "azs": draw(st.sampled_from([[az], azs])),
        }
        for i, az in enumerate(azs)
    ]
    return {"name": name, "type": "manual", "subnets": subnets}


@st.composite
def groups(draw: st.DrawFn, name: str, config: Document, aliases: list[str]) -> Document:
    azs = [az["name"] for az in config["azs"]]
    group: Document = {
        "name": name,
        "instances": draw(st.integers(0, 20)),
        "azs": draw(st.lists(st.sampled_from(azs), min_size=1, unique=True)),
        "vm_type": draw(st.sampled_from(config["vm_types"]))["name"],
        "stemcell": draw(st.sampled_from(aliases)),
        "networks": [{"name": draw(st.sampled_from(config["networks"]))["name"]}],
        "env": draw(MAPPINGS),
        "tags": draw(TAGS),
    }
    if draw(st.booleans()):
        group["persistent_disk_type"] = draw(st.sampled_from(config["disk_types"]))["name"]
    if draw(st.booleans()):
        group["placement"] = {"policy": draw(st.sampled_from(["affinity", "anti-affinity", "host-affinity"]))}
    return group


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Document, Document]:
    """A manifest and a cloud config that fit each other."""
    config, aliases = draw(configs()), draw(names())
    deployment = {
        "name": draw(NAMES),
        "stemcells": [{"alias": alias, "name": "debian-12", "version": "1.1"} for alias in aliases],
        "instance_groups": [draw(groups(name, config, aliases)) for name in draw(names(least=0))],
        "resurrection": draw(st.booleans()),
    }
    return deployment, config
