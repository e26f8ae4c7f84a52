"""Links and ranges, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.stemcell.links import sign, verify
from coterie.stemcell.ranges import Span, Unsatisfiable, read_range

KEY = b"k" * 32


def parts(path: str) -> list[str]:
    return path.split("/")[2:]


def test_a_link_is_good_until_it_ends() -> None:
    link = parts(sign(KEY, "image.qcow2", 1000))
    assert verify(KEY, *link, now=999.0) is True
    assert verify(KEY, *link, now=1000.0) is None


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_altered_link_is_none(at: int) -> None:
    link = parts(sign(KEY, "image.qcow2", 1000))
    link[at] = {0: "9999", 1: "0" * 40, 2: "other.qcow2"}[at]
    assert verify(KEY, *link, now=0.0) is False


@given(st.text(max_size=20), st.text(max_size=50), st.text(max_size=20))
def test_a_guessed_link_is_refused(expires: str, signature: str, name: str) -> None:
    assert verify(KEY, expires, signature, name, now=0.0) is False


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, None),
        ("bytes=0-0", Span(0, 0)),
        ("bytes=2-", Span(2, 9)),
        ("bytes=-3", Span(7, 9)),
        ("bytes=-99", Span(0, 9)),
        ("bytes=5-99", Span(5, 9)),
        ("bytes=5-2", None),
        ("bytes=-", None),
        ("bytes=1-2,4-5", None),
        ("lines=1-2", None),
    ],
)
def test_ranges(header: str | None, span: Span | None) -> None:
    assert read_range(header, 10) == span


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=-0", "bytes=99-100"])
def test_a_range_beyond_the_end(header: str) -> None:
    with pytest.raises(Unsatisfiable):
        read_range(header, 10)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(1, 40))
def test_a_span_lies_within_the_file(first: int, last: int, size: int) -> None:
    try:
        span = read_range(f"bytes={first}-{last}", size)
    except Unsatisfiable:
        assert first >= size
        return
    assert span is None or (0 <= span.start <= span.end < size and span.length >= 1)
