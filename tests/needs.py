"""What a test does when a server, a browser or a tool that it needs is not installed."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, way_out: str) -> NoReturn:
    """Skip on a laptop; fail in CI, where a test that never ran would look like one that passed."""
    reason = f"{what} is missing: {way_out}"
    if os.environ.get("CI") or os.environ.get("CALLFLOW_TEST_REQUIRE_ALL"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
