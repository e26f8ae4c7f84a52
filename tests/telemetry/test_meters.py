"""Meters count right under many threads, and their text is what Prometheus reads."""

from __future__ import annotations

import threading

from coterie.telemetry.meters import Counter, Gauge, Histogram, text
from tests.telemetry.exposition import read


def test_counters_count_by_label_under_many_threads() -> None:
    counter = Counter("c_total", "C.", ("what",))
    threads = [threading.Thread(target=lambda: [counter.add("a") for _ in range(500)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counter.add("b", count=2.5)
    assert read(text([counter])) == {'c_total{what="a"}': 4000, 'c_total{what="b"}': 2.5}


def test_a_counter_without_labels_begins_at_zero() -> None:
    assert read(text([Counter("c_total", "C.")])) == {"c_total": 0}


def test_a_histogram_is_cumulative_and_its_bounds_belong_to_their_bucket() -> None:
    seconds = Histogram("s", "S.", ("m",), bounds=(0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        seconds.observe(value, "x")
    assert read(text([seconds])) == {
        's_bucket{m="x",le="0.1"}': 2,
        's_bucket{m="x",le="1"}': 3,
        's_bucket{m="x",le="+Inf"}': 4,
        's_sum{m="x"}': 7.65,
        's_count{m="x"}': 4,
    }


def test_labels_are_escaped() -> None:
    counter = Counter("c_total", "C.", ("what",))
    counter.add('a"b\\c\nd')
    assert read(text([counter])) == {'c_total{what="a\\"b\\\\c\\nd"}': 1}


def test_a_gauge_is_read_when_it_is_asked_for() -> None:
    values = iter((1, 2))
    gauge = Gauge("g", "G.", lambda: next(values))
    assert read(text([gauge])) == {"g": 1}
    assert read(text([gauge])) == {"g": 2}
