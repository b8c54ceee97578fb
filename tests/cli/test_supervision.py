"""What dies is started again, and what cannot live is not started in a loop."""

from __future__ import annotations

from callflow.cli.local_stack import LONGEST_PAUSE_S, Supervisor
from callflow.errors import CallflowError


class Fake:
    """A part that lives and dies as it is told."""

    name = "beat"

    def __init__(self) -> None:
        self.living = True
        self.starts = 0
        self.refuses = False

    def alive(self) -> bool:
        return self.living

    def start(self) -> None:
        if self.refuses:
            raise CallflowError("no")
        self.starts += 1
        self.living = True

    def describe_death(self) -> str:
        return "was killed by SIGKILL"


def supervised() -> tuple[Supervisor, Fake]:
    supervisor, part = Supervisor(), Fake()
    supervisor.add(part, now=0)
    return supervisor, part


def test_nothing_is_said_of_what_lives() -> None:
    supervisor, _ = supervised()
    assert list(supervisor.look(100)) == []


def test_a_part_that_worked_for_long_is_started_again_at_once() -> None:
    supervisor, part = supervised()
    part.living = False
    assert list(supervisor.look(100)) == ["beat was killed by SIGKILL", "beat was started again"]
    assert part.starts == 1


def test_a_part_that_dies_at_its_start_is_given_longer_and_longer_pauses() -> None:
    supervisor, part = supervised()
    now = 0.0
    pauses: list[float] = []
    for _ in range(8):
        part.living = False
        assert "next try" in " ".join(supervisor.look(now))
        died = now
        while part.starts == len(pauses):
            now += 0.5
            list(supervisor.look(now))
        pauses.append(now - died)
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == LONGEST_PAUSE_S


def test_a_part_that_cannot_be_started_is_told_about_and_tried_again() -> None:
    supervisor, part = supervised()
    part.living, part.refuses = False, True
    assert list(supervisor.look(100))[-1] == "beat does not start: no"
    part.refuses = False
    news = [told for now in (101, 102, 103) for told in supervisor.look(now)]
    assert news[-1] == "beat was started again"
