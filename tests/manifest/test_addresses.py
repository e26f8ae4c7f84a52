"""Addresses as numbers: right, and cheap however large a range is."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.manifest.addresses import (
    AddressList,
    each,
    free_addresses,
    netmask,
    number,
    parse_span,
    text_of,
    usable,
)
from coterie.manifest.spans import Ranges, Span

small_spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: Span(pair[0], pair[0] + pair[1])), max_size=8
)


def members(spans: list[Span]) -> set[int]:
    return {n for span in spans for n in range(span.first, span.last + 1)}


@given(small_spans, small_spans)
def test_ranges_behave_like_sets(left: list[Span], right: list[Span]) -> None:
    a, b = Ranges(left), Ranges(right)
    assert list(a) == sorted(members(left))
    assert a.count == len(members(left))
    assert set(a.minus(b)) == members(left) - members(right)
    assert [n for n in range(70) if n in a] == sorted(members(left))
    assert all(x.last + 1 < y.first for x, y in zip(a.spans, a.spans[1:], strict=False))


@given(small_spans, st.integers(0, 60), st.integers(0, 8))
def test_covering_and_overlapping(spans: list[Span], first: int, more: int) -> None:
    ranges, span = Ranges(spans), Span(first, first + more)
    inside = members([span]) & members(spans)
    assert ranges.covers(span) == (inside == members([span]))
    overlap = ranges.overlap(span)
    assert (overlap.first if overlap else None) == min(inside, default=None)


@given(st.ip_addresses())
def test_a_number_gives_its_address_back(address: object) -> None:
    if "%" not in str(address):
        assert text_of(number(str(address))) == str(address)


def test_families_do_not_mix() -> None:
    assert number("0.0.0.1") != number("::1")
    assert number("255.255.255.255") < number("::")


@pytest.mark.parametrize(
    ("text", "count"),
    [("10.0.0.1", 1), ("10.0.0.1 - 10.0.0.9", 9), ("10.0.0.1-10.0.0.2", 2), ("10.0.0.0/8", 2**24), ("::/0", 2**128)],
)
def test_spans(text: str, count: int) -> None:
    assert parse_span(text).count == count


def test_what_a_machine_can_have() -> None:
    hosts = [text_of(n) for n in usable("10.0.0.0/29")]
    assert hosts == [str(host) for host in ip_network("10.0.0.0/29").hosts()]
    assert usable("10.0.0.0/31").count == 2
    assert usable("10.0.0.4/32").count == 1
    assert usable("2001:db8::/64").count == 2**64 - 1


def test_free_addresses_of_a_huge_block_come_lazily() -> None:
    free = free_addresses("10.0.0.0/8", "10.0.0.1", ["10.0.0.2 - 10.0.0.9"], ["10.0.0.12"])
    assert free.count == 2**24 - 2 - 1 - 8 - 1
    giving = each(free, {number("10.0.0.11")})
    assert [next(giving) for _ in range(3)] == ["10.0.0.10", "10.0.0.13", "10.0.0.14"]
    assert next(each(free_addresses("2001:db8::/32", "2001:db8::1"))) == "2001:db8::2"


def test_netmask() -> None:
    assert netmask("10.20.0.0/16") == "255.255.0.0"
    assert netmask("2001:db8::/64") == "ffff:ffff:ffff:ffff::"


def test_an_address_list_keeps_the_order_written() -> None:
    list_words = AddressList.of(["10.0.0.5", "10.0.0.1 - 10.0.0.3", "2001:db8::/127"])
    assert list(list_words) == ["10.0.0.5", "10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::", "2001:db8::1"]
    assert list_words[-1] == "2001:db8::1"
    assert list_words[1:3] == ["10.0.0.1", "10.0.0.2"]
    assert len(list_words) == 6
    with pytest.raises(IndexError):
        list_words[6]


def test_an_address_list_never_expands() -> None:
    list_words = AddressList.of(["10.0.0.1", "::/1"])
    assert list_words.total == 2**127 + 1
    assert list_words[2**126] == text_of(number("::") + 2**126 - 1)
