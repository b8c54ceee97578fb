"""A stream goes on while its session does, and for a moment while nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from callflow.access import auth
from callflow.errors import StoreUnavailable


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "RECHECK_S", 0.01)
    monkeypatch.setattr(auth, "STORE_GONE_S", 0.3)


class Stream:
    """Says numbers until nobody wants them."""

    closed = False

    async def parts(self, most: int) -> AsyncIterator[int]:
        try:
            for number in range(most):
                await asyncio.sleep(0.005)
                yield number
        finally:
            self.closed = True


async def seen(answers: list[bool | Exception], most: int = 100) -> tuple[int, int, bool]:
    """How much of a stream is seen, how often it was looked, and whether the stream was closed."""
    looks = 0

    async def valid() -> bool:
        nonlocal looks
        answer = answers[min(looks, len(answers) - 1)]
        looks += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    stream = Stream()
    found = [part async for part in auth.stream_while_valid(stream.parts(most), valid)]
    assert found == list(range(len(found)))
    return len(found), looks, stream.closed


GONE = StoreUnavailable("here", "it is gone")


def test_it_goes_on_to_its_end_while_the_session_does() -> None:
    many, looks, closed = asyncio.run(seen([True]))
    assert many == 100
    assert looks > 5
    assert closed


def test_it_ends_with_the_session_and_lets_go_of_what_it_read() -> None:
    many, looks, closed = asyncio.run(seen([True, True, False]))
    assert many < 100
    assert looks == 3
    assert closed


def test_a_store_that_does_not_answer_for_a_moment_ends_nothing() -> None:
    many, looks, _ = asyncio.run(seen([GONE, GONE, True]))
    assert many == 100
    assert looks > 5


def test_nobody_looks_on_for_long_while_nobody_knows() -> None:
    many, looks, closed = asyncio.run(seen([GONE], most=10_000))
    assert many < 1_000
    assert looks > 1
    assert closed


def test_it_goes_on_while_it_is_looked() -> None:
    async def slowly() -> int:
        asked = asyncio.Event()

        async def valid() -> bool:
            asked.set()
            await asyncio.sleep(60)
            return True

        found = [part async for part in auth.stream_while_valid(Stream().parts(30), valid)]
        assert asked.is_set()
        return len(found)

    assert asyncio.run(slowly()) == 30
