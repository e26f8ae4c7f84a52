"""The conformance kit: one set of tests that every driver runs unchanged. Needs pytest, so no product code enters here.

A driver's test file gives a fixture `bed` (a `TestBed`) and does `from coterie.cpi.conformance.kit import *`.
"""

import pytest

pytest.register_assert_rewrite("coterie.cpi.conformance.parts")
