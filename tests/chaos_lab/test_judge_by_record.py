"""The judge of a demo, whose replies only the record knows: each kind of fault is shown to it."""

from __future__ import annotations

import pytest

from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord, Role, ThreadEntry
from callflow.call.state import CallState
from callflow.lab.carrier.call_report import CallReport, HeardSound, Silence, SpokenTurn
from callflow.lab.chaos.demo_run import DemoResult
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.run_evidence import CallEvidence, RunConditions, RunEvidence, Strike
from callflow.lab.chaos.simulated_callers import load_scripts

SID = "CA1"


def _turn(
    number: int, *heard: str, said: str | None = None, cut: bool = False, answered: bool = True
) -> SpokenTurn:
    pieces = [
        HeardSound(number + 0.5, text, "relay", cut=cut and text != heard[-1]) for text in heard
    ]
    spoken = f"said {number}" if said is None else said
    return SpokenTurn(number, spoken, number, number, True, answered and bool(heard), heard=pieces)


def _caller(*turns: SpokenTurn, silences: tuple[Silence, ...] = ()) -> CallEvidence:
    report = CallReport(SID, "+1", "+2", "en", 0.0, turns=list(turns), silences=list(silences))
    return CallEvidence(report, "relay")


def _record(*said: tuple[Role, int, str]) -> CallRecord:
    return CallRecord(
        call_sid=SID,
        call_state=CallState.COMPLETE,
        created_at=0,
        updated_at=0,
        conversation_thread=tuple(
            ThreadEntry(role=role, turn=turn, text=text, at=0) for role, turn, text in said
        ),
    )


def _line(event: str, at: int = 0, **more: object) -> JournalEntry:
    return JournalEntry.model_validate({"event": event, "at": at, **more})


GOOD = _record(
    ("caller", 1, "said 1"), ("agent", 1, "Hello."), ("caller", 2, "said 2"), ("agent", 2, "Yes.")
)
COMMITTED = [_line("committed", turn=1), _line("committed", turn=2)]


def _result(
    callers: list[CallEvidence],
    records: dict[str, CallRecord],
    journal: list[JournalEntry] | None = None,
    strikes: tuple[Strike, ...] = (),
    leaked: tuple[str, ...] = (),
) -> DemoResult:
    conditions = RunConditions(seed=1, seconds=10, command="", letters_per_s=0)
    journals = {SID: tuple(COMMITTED if journal is None else journal)}
    evidence = RunEvidence(conditions, 0.0, tuple(callers), strikes, leaked, journals=journals)
    return DemoResult.of(evidence, judge(evidence, records))


def _judged(
    record: CallRecord, *turns: SpokenTurn, journal: list[JournalEntry] | None = None
) -> DemoResult:
    return _result([_caller(*turns)], {SID: record}, journal)


def test_a_call_without_fault_is_good() -> None:
    verdict = _judged(GOOD, _turn(1, "Hel", "lo."), _turn(2, "Yes."))
    assert verdict.good
    assert verdict.faults == []
    assert verdict.turn_ms.p50 == 500


@pytest.mark.parametrize(
    ("record", "turns"),
    [
        (_record(("agent", 1, "Hello.")), [_turn(1, "Hello.")]),
        (_record(("caller", 1, "something else"), ("agent", 1, "Hi.")), [_turn(1, "Hi.")]),
        (_record(("caller", 1, "said 1")), [_turn(1)]),
    ],
)
def test_what_was_acknowledged_and_is_not_there_is_lost(
    record: CallRecord, turns: list[SpokenTurn]
) -> None:
    verdict = _judged(record, *turns)
    assert verdict.lost == 1
    assert not verdict.good


def test_a_call_without_a_record_is_lost() -> None:
    verdict = _result([_caller(_turn(1, "Hello."))], {}, [])
    assert verdict.lost == 1


@pytest.mark.parametrize(
    ("record", "heard", "journal"),
    [
        (
            _record(("caller", 1, "said 1"), ("agent", 1, "Hi."), ("agent", 1, "Hi.")),
            ["Hi."],
            COMMITTED,
        ),
        (_record(("caller", 1, "said 1"), ("agent", 1, "Hi.")), ["Hi."], COMMITTED + COMMITTED),
        (_record(("caller", 1, "said 1"), ("agent", 1, "Hi.")), ["Hi.", "Hi."], COMMITTED),
    ],
)
def test_what_is_said_twice_is_repeated(
    record: CallRecord, heard: list[str], journal: list[JournalEntry]
) -> None:
    verdict = _judged(record, _turn(1, *heard), journal=journal)
    assert verdict.repeated >= 1
    assert not verdict.good


def test_turns_that_stand_in_another_order_are_out_of_order() -> None:
    record = _record(
        ("caller", 2, "said 2"), ("caller", 1, "said 1"), ("agent", 2, "B."), ("agent", 1, "A.")
    )
    verdict = _judged(record, _turn(1, "A."), _turn(2, "B."))
    assert verdict.out_of_order == 2


def test_a_key_without_a_lifetime_is_a_leak() -> None:
    verdict = _result([], {}, [], leaked=("callflow:{00}:call:CA9",))
    assert verdict.leaked_keys == 1
    assert not verdict.good


def test_a_takeover_is_counted_from_the_signal_to_the_next_claim() -> None:
    journal = [
        _line("claimed", 1000, worker="w1@h/1-a", fence=1),
        _line("reclaimed", 2300, fence=1),
        _line("claimed", 2400, worker="w2@h/2-b", fence=2),
        _line("committed", 3000, fence=2),
    ]
    for victim, at_ms, found in (
        ("w1@h", 2000, 0.4),
        ("w1@h/1-a", 2000, 0.4),
        ("w2@h", 2000, None),
        ("w1@h", 900, None),
    ):
        struck = Strike("worker-kill", "killed", (victim,), 0.0, 0.0, at_ms)
        assert _result([], {}, journal, strikes=(struck,)).takeover_s.max == found


def test_callers_bring_lines_in_three_languages() -> None:
    spoken = load_scripts()
    assert {one.language for one in spoken} >= {"en", "zh", "es"}
    assert all(len(one.lines) >= 10 for one in spoken)


TWO = "Stay inside. Help is near."


@pytest.mark.parametrize(
    ("heard", "fault"),
    [
        (["Stay inside. Hel", "Help is near."], None),
        (["Stay in", "Stay inside. Help is near."], None),
        (["Stay inside. Hel", "Stay inside. Help is near."], "repeated"),
        (["Stay in", "Help is near."], "lost"),
        (["Stay inside. Help is near.", "Other words."], "lost"),
    ],
)
def test_where_a_line_broke_the_broken_sentence_may_be_said_again_and_nothing_else(
    heard: list[str], fault: str | None
) -> None:
    record = _record(("caller", 1, "said 1"), ("agent", 1, TWO))
    verdict = _judged(record, _turn(1, *heard, cut=True), journal=COMMITTED[:1])
    assert [one.partition(":")[0] for one in verdict.faults] == ([fault] if fault else [])


def test_an_utterance_that_the_caller_made_once_and_the_record_has_twice_is_repeated() -> None:
    record = _record(
        *(("caller", 1, "said 1"), ("agent", 1, "A.")),
        *(("caller", 2, "said 1"), ("agent", 2, "B.")),
    )
    verdict = _judged(record, _turn(1, "A.", "B."))
    assert verdict.repeated == 1


def test_more_than_four_seconds_of_silence_are_a_fault() -> None:
    silences = (Silence(1.0, 3.9, "reply", 1), Silence(9.0, 4.1, "reply", 2))
    caller = _caller(_turn(1, "Hello."), _turn(2, "Yes."), silences=silences)
    verdict = _result([caller], {SID: GOOD})
    assert verdict.too_silent == 1
    assert verdict.silence_s.max == 4.1
    assert not verdict.good


def test_silence_that_the_carrier_made_on_purpose_is_not_ours() -> None:
    silences = (Silence(9.0, 5.0, "reply", 1, mischief_s=2.0),)
    caller = _caller(_turn(1, "Hello."), _turn(2, "Yes."), silences=silences)
    assert _result([caller], {SID: GOOD}).good


ALIKE = _record(
    ("caller", 1, "said 1"),
    ("agent", 1, "Stay inside. I am here."),
    ("caller", 2, "said 2"),
    ("agent", 2, "Stay inside. How many people?"),
)


def test_a_reply_that_begins_like_the_one_before_it_is_not_taken_for_it() -> None:
    first = _turn(1, "Stay inside. I am here.")
    again = _turn(2, "Stay", "Stay inside. How many people?", cut=True)
    assert _judged(ALIKE, first, again).faults == []
    twice = _judged(
        ALIKE, first, _turn(2, "Stay inside. I am here.", "Stay inside. How many people?")
    )
    assert twice.repeated == 1
    begun_twice = _judged(ALIKE, first, _turn(2, "Stay inside.", "Stay inside. How many people?"))
    assert begun_twice.repeated == 1
