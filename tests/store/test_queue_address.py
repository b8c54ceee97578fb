"""Where the Celery messages are, as kombu names it and as the calls' own client does."""

from __future__ import annotations

import pytest

from callflow.redis.url import check_broker_url, store_url_of_broker


@pytest.mark.parametrize(
    ("url", "same"),
    [
        ("redis://:pw@host/1", "redis://:pw@host/1"),
        ("redis+socket:///r.sock?virtual_host=2", "unix:///r.sock?db=2"),
        ("sentinel://host", "redis+sentinel://host/calls/"),
        (
            "sentinel://me:p%40w@a:1/3;sentinel://:pw@[::1]:2",
            "redis+sentinel://me:p%40w@a:1,[::1]:2/calls/3",
        ),
    ],
)
def test_a_queue_is_found_by_the_client_of_the_calls(url: str, same: str) -> None:
    check_broker_url(url)
    assert store_url_of_broker(url, "calls") == same
