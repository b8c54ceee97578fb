"""A password that was not percent-encoded is never shown as a host's name."""

from __future__ import annotations

import pytest

from callflow.errors import SettingsError
from callflow.redis.client import connect, connect_async
from callflow.redis.url import check_broker_url
from callflow.settings import load

UNESCAPED = [
    "redis://:p@ssw0rd/verysecret@db.example:6379/0",
    "redis://:p@ssw0rd@db.example:6379/0",
    "rediss://me:ssw0rd#verysecret@db.example:6379/0",
    "redis://:ssw0rd/verysecret@db.example:6379/0",
    "redis://:12?db=1&client_name=verysecret@db.example:6379/0",
    "redis://db.example/verysecret",
    "redis://db.example:6379/0#ssw0rd",
]

GOOD = [
    "redis://localhost",
    "redis://:p%40ssw0rd%2Fx%23@db.example:6379/0",
    "rediss://me:pw@[::1]:6379/15?ssl_cert_reqs=none",
    "redis://host:6379/?db=3",
    "redis://:pw@host:6379/0?client_name=a@b",
]


@pytest.mark.parametrize("url", UNESCAPED)
def test_an_address_that_a_password_may_have_broken_is_refused_without_a_part_of_it(
    url: str,
) -> None:
    told = []
    for asked in (connect, connect_async):
        with pytest.raises(SettingsError) as raised:
            asked(url)
        told.append(str(raised.value))
    for name in ("CALLFLOW_REDIS_URL", "CALLFLOW_BROKER_URL"):
        with pytest.raises(SettingsError) as raised:
            load({"CALLFLOW_REDIS_URL": "redis://localhost", name: url})
        told.append(str(raised.value))
    for one in told:
        assert "percent-encoded" in one
        assert not any(part in one for part in ("ssw0rd", "secret", "db.example"))


@pytest.mark.parametrize("url", GOOD)
def test_an_address_that_is_whole_is_taken(url: str) -> None:
    connect(url).close()
    check_broker_url(url)
