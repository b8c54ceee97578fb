"""Many calls at once, and what came of them in numbers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from callflow.lab.carrier.caller import Behaviour
from callflow.lab.carrier.carrier import LIFT, NUMBER, Call, Carrier
from callflow.lab.carrier.report import CallReport, Spread


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run showed. Field names are a promise to programs.

    `lost`: turns that were accepted and never answered. `answer_ms`: from the end of the caller's
    words to the first words of the reply; `first_token_ms`: from the prompt frame to the first
    token. `silence_s` leaves out what the carrier made on purpose.
    """

    calls: int
    turns: int
    failed: int
    lost: int
    silence_s: Spread
    answer_ms: Spread
    first_token_ms: Spread
    retries: int
    requests: int
    with_human: int
    gave_up: int
    ended_by: dict[str, int]

    @classmethod
    def of(cls, reports: Sequence[CallReport]) -> LoadResult:
        """The sum of some calls."""
        turns = [turn for report in reports for turn in report.turns]
        endings = [report.ended_by for report in reports]
        return cls(
            calls=len(reports),
            turns=len(turns),
            failed=sum(report.failed for report in reports),
            lost=sum(len(report.lost) for report in reports),
            silence_s=Spread.of(one.own_s for report in reports for one in report.silences),
            answer_ms=Spread.of((_ms(turn.reply_s) for turn in turns), 1),
            first_token_ms=Spread.of((_ms(turn.first_token_s) for turn in turns), 1),
            retries=sum(report.retries for report in reports),
            requests=sum(report.requests for report in reports),
            with_human=sum(report.with_human for report in reports),
            gave_up=sum(report.gave_up for report in reports),
            ended_by={one: endings.count(one) for one in sorted(set(endings))},
        )

    @property
    def good(self) -> bool:
        """True when nobody was lost."""
        return not (self.failed or self.lost)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


async def load(
    carrier: Carrier,
    person: Callable[[int], Behaviour],
    *,
    calls: int,
    rate_per_s: float,
    to: str = NUMBER,
    from_: str = LIFT,
    placed: Callable[[Call], None] = lambda _: None,
) -> list[CallReport]:
    """Place `calls` calls at an even rate and wait for the end of all.

    `person` gives the behaviour of each by its number from 0; `placed` is told of each call as it
    begins.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    ongoing: list[Call] = []
    for number in range(calls):
        await asyncio.sleep(max(0.0, began + number / rate_per_s - loop.time()))
        call = carrier.place(person(number), to=to, from_=from_)
        ongoing.append(call)
        placed(call)
    return list(await asyncio.gather(*(call.ended() for call in ongoing)))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
