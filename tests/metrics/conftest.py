"""Fixtures of the tests of metrics."""

from __future__ import annotations

import pytest

from tests.metrics.watched import Watched
from tests.parts import Parts


@pytest.fixture
def watched(parts: Parts) -> Watched:
    """The metrics of a process that has just begun."""
    return Watched(parts)
