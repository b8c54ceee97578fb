"""Reads whole calls with labels, and rehearses them in memory, turn by turn.

A file is JSON (one array of calls) or JSON lines (a call on each line). A call:

    {"id": "en-plain", "lang": "en", "lines": [LINE, …],
     "site": {"lift": "Lift 4", "address": "1 High Street"},
     "recorded": {"4": {"dispatch.requested": true}},
     "human": 2, "needs": ["place", "people", "injured"], "never": ["air comes in"],
     "ends": {"urgency": "P3", "scenario": "entrapment_standard", "facts": {"people": 3}}}

`site`: what is known before anybody speaks. `recorded`: what people have noted, by the turn from
which on it is known. `human`: the turn in which a person must have been fetched at the latest.
`needs`: what must be known, or have been asked for, in the end; all three where it is left out.
`never`: stretches of text that no reply may hold. `ends`: how the call must stand in the end.

A line is what the caller says, as a text or as an object with labels, all of which may be left out:

    {"says": "three of us, how long", "asks": ["how_long|help_sent"], "tells": {"people": 3},
     "danger": false, "scenario": "entrapment_standard", "urgency": "P3", "confidence": 0.9}

`asks`: the questions of `language/questions.py` that must be answered in this very reply; | stands
between names of which any is right. `tells`: facts that need not be asked for any more. `danger`:
false says that the words harm nobody, so that neither procedure nor urgency may move. `scenario`
and `urgency`: where the call must stand after the turn; several with | between.

A recogniser's errors are put into the callers' lines: `data/misheard.json` holds, by language, what
is heard for which words; "" stands for nothing. Of 65 errors in English transcripts of a real
recogniser with up to 30 % of the words wrong, 64 were other words in the place of those said, and
one was a gap. The same seed gives the same errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Final, get_args

from callflow.call.facts import CALLER_FACTS, HUMAN_FACTS
from callflow.call.record import CallRecord, HumanAlert
from callflow.call.urgency import Urgency
from callflow.errors import did_you_mean
from callflow.lab.evaluation.dataset import STDIN, LabelError, Line, Words, lines_of
from callflow.lab.evaluation.rehearsal import Parts, Turn, hear_reply, open_call, take_turn
from callflow.language.questions import QUESTIONS
from callflow.language.requests import asks_for_human

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "place": ("address", "lift_id", "floor", "location_confirmed"),
    "people": ("people",),
    "injured": ("injured", "awake", "breathing"),
}
"""What a call must have learned or asked for, and the facts of which one will do."""

_CALL_KEYS: Final = (
    *("id", "lang", "lines", "site", "recorded", "human", "needs", "never", "ends"),
)
_LINE_KEYS: Final = ("says", "asks", "tells", "danger", "scenario", "urgency", "confidence")
_END_KEYS: Final = ("urgency", "scenario", "facts")
_URGENCIES: Final = get_args(Urgency)


@dataclass(frozen=True, slots=True)
class ScriptedLine:
    """What a caller says in one turn, and what is right about it; see the head of this file.

    `misheard`: a recogniser's errors are in the words, so that what they tell may be lost.
    """

    says: str
    asks: tuple[tuple[str, ...], ...] = ()
    tells: Mapping[str, Any] = field(default_factory=dict)
    danger: bool | None = None
    scenario: tuple[str, ...] = ()
    urgency: tuple[str, ...] = ()
    confidence: float | None = None
    misheard: bool = False


@dataclass(frozen=True, slots=True)
class WholeCall:
    """A whole call with its labels; see the head of this file."""

    where: str
    id: str
    language: str
    lines: tuple[ScriptedLine, ...]
    site: Mapping[str, Any]
    recorded: Mapping[int, Mapping[str, Any]]
    human: int | None
    needs: tuple[str, ...]
    never: tuple[str, ...]
    ends: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallTurn:
    """One turn of a rehearsed call: `before` is the record before it, `alerted` tells whether a
    person has been fetched by the end of it."""

    line: ScriptedLine
    before: CallRecord
    turn: Turn
    alerted: bool


def shipped_calls() -> Path:
    """Return the file of whole calls that callflow brings."""
    return Path(str(files("callflow.lab.evaluation").joinpath("data", "calls.json")))


def read_calls(path: Path, stdin: BinaryIO, words: Words) -> list[WholeCall]:
    """Return the calls of a file, in its order; `-` is read from `stdin`.

    Raises LabelError for a file that cannot be read, and for a call with a label that is unknown.
    """
    calls = [_read_call(line, words) for line in _objects(path, stdin)]
    twice = {call.id for call in calls if [each.id for each in calls].count(call.id) > 1}
    if twice:
        raise LabelError(path, 1, f"the id {min(twice)!r} is given twice; ids must differ")
    return calls


def rehearse_call(call: WholeCall, parts: Parts) -> list[CallTurn]:
    """Return the turns of a call as workers would have it, with the person who is rung for it."""
    record, turns = open_call(call.language, call.site), []
    for number, line in enumerate(call.lines, start=1):
        record = record.model_copy(
            update={"recorded": {**record.recorded, **call.recorded.get(number, {})}}
        )
        if asks_for_human(line.says):
            record = _alert(record, "asked")
        turn = take_turn(record, line.says, parts.understanding, parts.responder, line.confidence)
        after = hear_reply(turn)
        if after.needs_human:
            after = _alert(after, after.needs_human)
        turns.append(CallTurn(line, record, turn, after.alert is not None))
        record = after
    return turns


def _alert(record: CallRecord, reason: str) -> CallRecord:
    if record.alert is not None:
        return record
    return record.model_copy(update={"alert": HumanAlert(reason=reason, state="ringing")})


def _objects(path: Path, stdin: BinaryIO) -> Iterator[Line]:
    """The objects of a file of either form, numbered by line or by their place in the array."""
    try:
        data = stdin.read() if path == STDIN else path.read_bytes()
        whole = json.loads(data)
    except OSError as error:
        raise LabelError(path, 1, f"cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError):
        whole = None  # Then it is lines, and what is wrong with those is told by line.
    if not isinstance(whole, list):
        yield from lines_of(path, BytesIO(data))
        return
    if not whole:
        raise LabelError(path, 1, "the file holds no call")
    for number, values in enumerate(whole, start=1):
        if not isinstance(values, dict):
            raise LabelError(path, number, "no JSON object; each call must be one, { to }")
        yield Line(path, number, values)


def _read_call(line: Line, words: Words) -> WholeCall:
    _require_known(line, line.values, _CALL_KEYS)
    lines = line.values.get("lines")
    if not isinstance(lines, list) or not lines:
        raise line.fail('lines must be a list of what the caller says, such as ["we are stuck"]')
    needs = line.texts("needs") if "needs" in line.values else tuple(NEEDS)
    _require_known(line, needs, NEEDS)
    ends = _object(line, "ends")
    _require_known(line, ends, _END_KEYS)
    human = line.values.get("human")
    if human is not None and (isinstance(human, bool) or not isinstance(human, int)):
        raise line.fail("human must be the number of a turn")
    return WholeCall(
        where=f"{line.path}:{line.number}",
        id=line.filled("id"),
        language=line.language(words.languages),
        lines=tuple(_read_line(line, each, words) for each in lines),
        site=_object(line, "site"),
        recorded=_recorded(line),
        human=human,
        needs=needs,
        never=line.texts("never"),
        ends={
            "urgency": _choice(line, ends, "urgency", _URGENCIES),
            "scenario": _choice(line, ends, "scenario", words.groups),
            "facts": _facts(line, ends.get("facts", {})),
        },
    )


def _read_line(line: Line, given: Any, words: Words) -> ScriptedLine:
    labels = {"says": given} if isinstance(given, str) else given
    if not isinstance(labels, dict):
        raise line.fail('each of lines must be a text or an object, such as {"says": "hello"}')
    _require_known(line, labels, _LINE_KEYS)
    own = Line(line.path, line.number, labels)
    asks = tuple(tuple(each.split("|")) for each in own.texts("asks"))
    _require_known(line, [name for each in asks for name in each], QUESTIONS)
    danger = labels.get("danger")
    if danger is not None and not isinstance(danger, bool):
        raise line.fail("danger must be true or false")
    return ScriptedLine(
        says=own.text("says"),
        asks=asks,
        tells=_facts(line, labels.get("tells", {})),
        danger=danger,
        scenario=_choice(line, labels, "scenario", words.groups),
        urgency=_choice(line, labels, "urgency", _URGENCIES),
        confidence=own.share("confidence"),
    )


def _recorded(line: Line) -> dict[int, Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    for turn, facts in _object(line, "recorded").items():
        if not turn.isdecimal() or not isinstance(facts, dict):
            raise line.fail('recorded must name facts by turn, such as {"4": {…}}')
        _require_known(line, facts, HUMAN_FACTS)
        found[int(turn)] = facts
    return found


def _object(line: Line, key: str) -> Mapping[str, Any]:
    value = line.values.get(key, {})
    if not isinstance(value, dict):
        raise line.fail(f"{key} must be an object")
    return value


def _facts(line: Line, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise line.fail('facts must be an object, such as {"people": 3}')
    _require_known(line, value, CALLER_FACTS)
    return value


def _choice(
    line: Line, labels: Mapping[str, Any], key: str, known: Collection[str]
) -> tuple[str, ...]:
    """The names under `key` with | between them; none where it is left out."""
    value = labels.get(key)
    if value is None:
        return ()
    if not isinstance(value, str):
        raise line.fail(f"{key} must be a text")
    names = tuple(value.split("|"))
    _require_known(line, names, known)
    return names


def _require_known(line: Line, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise line.fail(f"{name!r} is no word for it here{did_you_mean(name, known)}")


_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
BANDS: Final = (0.0, 0.05, 0.1, 0.15, 0.2)
"""The share of words that is misheard in each run of a call, in turn: the first is clean."""


def word_error(run: int) -> float:
    """Return the share of words that is misheard in a run, which counts from 1."""
    return BANDS[(run - 1) % len(BANDS)] if run > 1 else 0.0


def mishear(words: str, language: str, share: float, seed: str) -> str:
    """Return the words as a recogniser may have heard them, about a `share` of them wrong.

    Words that the table does not have are heard rightly.
    """
    pattern, heard_for = _table(language)
    places = list(pattern.finditer(words.lower()))
    chance = Random(seed)
    chance.shuffle(places)
    wanted, changed = share * _length(words), 0
    taken = []
    for place in places:
        size = _length(place[0])
        # At least half of a word must be wanted: the share is met on the whole, not in each line.
        if wanted - changed < size * chance.random():
            break
        taken.append((place, chance.choice(heard_for[place[0]])))
        changed += size
    for place, instead in sorted(taken, key=lambda each: -each[0].start()):
        words = f"{words[: place.start()]}{instead}{words[place.end() :]}"
    return " ".join(words.split()) or words


def confidence(said: str, heard: str) -> float:
    """Return how sure a recogniser is of what it misheard so: 0.87 of words that are right, and as
    much less as of them are wrong (measured on the same transcripts)."""
    before, after = (
        list(words) if _HAN.search(words) else words.split() for words in (said, heard)
    )
    return round(0.87 * SequenceMatcher(None, before, after).ratio(), 2)


def _length(words: str) -> int:
    """Count words, or the letters of a language that writes none apart."""
    return sum(len(word) if _HAN.search(word) else 1 for word in words.split())


@cache
def _table(language: str) -> tuple[re.Pattern[str], dict[str, list[str]]]:
    text = files("callflow.lab.evaluation").joinpath("data", "misheard.json").read_text("utf-8")
    table: dict[str, list[str]] = json.loads(text)[language]
    longest_first = sorted(table, key=lambda word: -len(word))
    bound = "" if language == "zh" else r"\b"
    return re.compile(f"{bound}(?:{'|'.join(map(re.escape, longest_first))}){bound}"), table
