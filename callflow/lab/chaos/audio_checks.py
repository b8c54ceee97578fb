"""Checks what one caller heard: replies whole, once, in order, and each to its utterance. Pure.

`listen` takes a report apart into sentences of replies, phrases and people. The replies of a run of
chaos are `responder/synthetic.py`'s, so each sentence says itself what it belongs to, and
`ReplyChecker` follows them. Those of the demo say nothing about themselves: `compare_with_record`
finds them in the record. For both, a sentence that broke off with its line may be said again, and
nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import accumulate
from typing import Final, NamedTuple

from callflow.call.record import CallRecord
from callflow.lab.carrier.call_report import CallReport, HeardSound, SpokenTurn
from callflow.lab.carrier.phone_line import split_sentences
from callflow.lab.chaos.promises import FaultKind
from callflow.responder.phrases import generic
from callflow.responder.synthetic import PARTS, SENTENCE, Counted, code_of

LANGUAGES: Final = ("en", "zh", "es")

HOLDING_PHRASES: Final = (
    *("hold_1", "hold_2", "getting_person", "still_here", "nobody_yet", "person_left", "say_again"),
)
"""What is said while a reply is awaited: no reply itself."""

EARSHOT_S: Final = 0.1
"""Nobody knows better where in a sentence a line broke."""

SILENCE_CODE: Final = code_of("")
"""The code of an utterance without words: callflow hears silence on its own account."""

_SPEECH_KINDS: Final = ("say", "gather", "relay")
_NAMED_PART: Final = re.compile(r"Reply (?P<turn>\d+), part (?P<part>\d+) of")
_UNNAMED_PART: Final = re.compile(
    "".join(f"(?:{part}" for part in ("R", "e", "p", "l", "y", r" \d*", ",", r" [part]*", r" \d*"))
    + "(?: o?f?)?"
    + ")?" * 8
    + ")"
)
"""What may be heard of a sentence before it can be told which one it is."""

_OPENINGS: Final = ("line", "disclosure", "disclosure_alerting")


class Sound(StrEnum):
    PART = "part"
    """A whole sentence of a reply."""
    BEGUN = "begun"
    """The beginning of one: the line broke, or the caller spoke."""
    STILL_HERE = "still_here"
    """What is said when a line has broken: a sentence that broke off comes again behind it."""
    ASKED_AGAIN = "asked_again"
    """The caller is asked to say their words once more."""
    OPENING = "opening"
    """Words with which a call begins."""
    PHRASE = "phrase"
    """Any other sentence that is no reply."""
    PLAIN = "plain"
    """Words of a procedure: the ladder's rung below the responder."""
    HUMAN = "human"
    STOCK = "stock"
    """The carrier's own: something went wrong."""
    TONE = "tone"


@dataclass(frozen=True, slots=True)
class HeardEvent:
    """One sound. Times are those of the report: real seconds since the call began."""

    sound: Sound
    at_s: float
    after: int
    """How many turns the caller had begun by then."""
    said: Counted | None = None
    turn: int = 0
    part: int = 0
    """PART, and BEGUN where so much of it was heard that it tells; 0 where not."""
    letters: int = 0
    """How many of them were heard."""
    cut: bool = False
    """The line fell silent right behind it, or in it."""
    until_s: float | None = None
    """None: to the end of the call."""


def listen(report: CallReport) -> list[HeardEvent]:
    found = [event for heard in report.greeting for event in _split(heard, 0)]
    for count, turn in enumerate(report.turns, 1):
        found += [event for heard in turn.heard for event in _split(heard, count)]
    return found


def _split(heard: HeardSound, after: int) -> Iterator[HeardEvent]:
    if heard.kind in _SPEECH_KINDS:
        ends_s = heard.at_s if heard.until_s is None else heard.until_s
        speech = _Speech(heard.at_s, (ends_s - heard.at_s) / max(1, len(heard.text)), after)
        yield from speech.split(heard)
    else:
        sound = _OTHER_KINDS.get(heard.kind, Sound.TONE)
        yield HeardEvent(sound, heard.at_s, after, until_s=heard.until_s)


_OTHER_KINDS: Final = {"human": Sound.HUMAN, "stock": Sound.STOCK}


@dataclass(frozen=True, slots=True)
class _Speech:
    """Words that were heard from `at_s` on, each letter `letter_s` long."""

    at_s: float
    letter_s: float
    after: int

    def split(self, heard: HeardSound) -> Iterator[HeardEvent]:
        text, begin = heard.text, 0
        for found in SENTENCE.finditer(text):
            yield from self._split_other_words(text, begin, found.start(), cut=False)
            said, begin = Counted.of_match(found), found.end()
            cut = heard.cut and not text[begin:].strip()
            yield self._event(
                *(Sound.PART, found.start(), begin),
                cut=cut,
                said=said,
                turn=said.turn,
                part=said.part,
            )
        yield from self._split_other_words(text, begin, len(text), cut=heard.cut)

    def _split_other_words(
        self, text: str, begin: int, end: int, *, cut: bool
    ) -> Iterator[HeardEvent]:
        """Phrases, the beginning of a sentence, or words of another origin."""
        while begin < end and text[begin].isspace():
            begin += 1
        rest = text[begin:end].rstrip()
        if not rest:
            return
        known = next((one for one in _phrases() if rest.startswith(one[0])), None)
        if known is not None:
            behind = begin + len(known[0])
            yield self._event(known[1], begin, behind)
            yield from self._split_other_words(text, behind, end, cut=cut)
        elif cut and _is_beginning(rest):
            named = _NAMED_PART.match(rest)
            turn, part = (int(named["turn"]), int(named["part"])) if named else (0, 0)
            yield self._event(Sound.BEGUN, begin, end, cut=True, turn=turn, part=part)
        elif cut and any(phrase.startswith(rest) for phrase, _ in _phrases()):
            # A phrase that was cut off is a phrase all the same.
            yield self._event(Sound.PHRASE, begin, end, cut=True)
        else:
            yield self._event(Sound.PLAIN, begin, end, cut=cut)

    def _event(
        self,
        sound: Sound,
        begin: int,
        end: int,
        *,
        cut: bool = False,
        said: Counted | None = None,
        turn: int = 0,
        part: int = 0,
    ) -> HeardEvent:
        at_s, until_s = (self.at_s + self.letter_s * letter for letter in (begin, end))
        return HeardEvent(sound, at_s, self.after, said, turn, part, end - begin, cut, until_s)


def _is_beginning(rest: str) -> bool:
    """True for the beginning of a sentence of a reply, long enough to tell which one or not."""
    return _NAMED_PART.match(rest) is not None or _UNNAMED_PART.fullmatch(rest) is not None


@cache
def _phrases() -> tuple[tuple[str, Sound], ...]:
    """Every sentence that is said without a procedure, longest first."""
    sounds = {"still_here": Sound.STILL_HERE, "say_again": Sound.ASKED_AGAIN}
    sounds |= dict.fromkeys(_OPENINGS, Sound.OPENING)
    found = {
        text: sounds.get(name, Sound.PHRASE)
        for language in LANGUAGES
        for name, text in generic(language).items()
    }
    return tuple(sorted(found.items(), key=lambda one: -len(one[0])))


class Complaint(NamedTuple):
    """A kind of fault, when it was heard, a sentence, and for a counted reply what was heard."""

    kind: FaultKind
    at_s: float
    detail: str
    event: HeardEvent | None = None


@dataclass(slots=True)
class HeardReply:
    """One reply so far. `turn` is the number that it names itself by."""

    turn: int
    code: str
    first: HeardEvent
    last: HeardEvent
    heard_to: int = 0
    """The last sentence that was heard whole, from 1."""
    begun: int = 0
    """Letters of the sentence after it."""
    may_repeat: bool = False
    """The line broke after the last of it: one sentence may be said again."""
    skipped: dict[int, HeardEvent] = field(default_factory=dict)
    """Sentences that were not heard in their place, and what was heard there."""

    @property
    def whole(self) -> bool:
        return self.heard_to >= PARTS


@dataclass
class ReplyChecker:
    """Takes the sounds of one call in order. `turns`: what the caller said."""

    turns: Sequence[SpokenTurn]
    slack: float
    """Letters that are said in the tenth of a second by which nobody knows better."""
    heard: dict[int, HeardReply] = field(default_factory=dict)
    """By the number of the turn."""
    complaints: list[Complaint] = field(default_factory=list)
    _newest: HeardReply | None = None
    _complained: set[tuple[FaultKind, int]] = field(default_factory=set)
    _human_came: bool = False
    """From then on a silence may stand in the conversation to which nobody has replied."""
    _claim: int = 0
    """By which claim the worker of the last sentence had the call."""
    _forgiven: int = 0
    _known: int = 0
    """How many turns of the caller the worker of the last sentence had found."""

    def __post_init__(self) -> None:
        self.codes = [code_of(turn.said) for turn in self.turns]

    def take(self, event: HeardEvent) -> None:
        if event.sound is Sound.PART and event.said is not None:
            self._take_sentence(event, event.said)
        elif event.sound is Sound.BEGUN:
            self._take_beginning(event)
        elif event.sound is Sound.HUMAN:
            self._human_came = True
        elif event.sound in (Sound.STILL_HERE, Sound.ASKED_AGAIN) and self._newest is not None:
            self._newest.may_repeat = True

    def forgive_forgetting(self) -> None:
        """A failover has taken what was said, and the callers were promised nothing else."""
        self._claim = 0
        self._known, self._forgiven = 0, len(self._answered_codes())

    def answered(self, code: str) -> list[HeardReply]:
        """The replies to what was said with this code, in the order in which they began."""
        found = [reply for reply in self.heard.values() if reply.code == code]
        return sorted(found, key=lambda reply: reply.first.at_s)

    def _take_sentence(self, event: HeardEvent, said: Counted) -> None:
        if said.code not in (SILENCE_CODE, *self.codes[: event.after]):
            self._complain(FaultKind.MISPLACED, event, f"reply {said.turn} answers something else")
            return
        reply = self.heard.get(said.turn)
        if reply is None:
            reply = HeardReply(said.turn, said.code, event, event)
            self._check_order(event, reply)
            self.heard[said.turn] = reply
            self._newest = reply
        elif reply.code != said.code:
            self._complain(FaultKind.MISPLACED, event, f"reply {said.turn} answers two utterances")
            return
        elif self._newest is not reply:
            kind = FaultKind.REPEATED if reply.whole else FaultKind.OUT_OF_ORDER
            detail = f"part {said.part} of reply {said.turn} came after a later one"
            self._complain(kind, event, detail)
            return
        self._continue(event, reply, said)
        self._check_memory(event, said)
        self._check_claim(event, said)

    def _continue(self, event: HeardEvent, reply: HeardReply, said: Counted) -> None:
        """The next sentence of a reply must be the one behind the last."""
        step = said.part - reply.heard_to
        just_ended = reply.may_repeat and reply.begun <= self.slack
        if said.part in reply.skipped:
            reply.skipped.pop(said.part)
            detail = f"part {said.part} of reply {said.turn} behind part {reply.heard_to}"
            self._complain(FaultKind.OUT_OF_ORDER, event, detail)
        elif step <= 0 and not (step == 0 and just_ended):
            # What broke off may come again; the one before it only if it had just ended.
            kind = FaultKind.REPEATED if reply.whole else FaultKind.SAID_AGAIN
            detail = f"part {said.part} of reply {said.turn} once more, behind {reply.heard_to}"
            self._complain(kind, event, detail)
        elif not self._nothing_left_out(event, reply, said, step):
            reply.skipped |= dict.fromkeys(range(reply.heard_to + 1, said.part), event)
        reply.heard_to = max(reply.heard_to, said.part)
        reply.begun, reply.may_repeat, reply.last = 0, event.cut, event

    def _nothing_left_out(
        self, event: HeardEvent, reply: HeardReply, said: Counted, step: int
    ) -> bool:
        if step <= 1:
            return True
        # A new reply's first words may have come while the caller was speaking.
        since = reply.last.after if reply.heard_to or reply.begun else event.after - 1
        spoken_over = any(self.spoke_over(after) for after in range(since, event.after))
        nearly_whole = reply.begun and len(said.text) - reply.begun <= self.slack
        return spoken_over or (step == 2 and bool(nearly_whole))

    def spoke_over(self, after: int) -> bool:
        """True when the caller's next turn began while something was still to be said: what comes
        while they speak is for nobody."""
        return after < len(self.turns) and (
            self.turns[after].interrupted or self.turns[after].repeated
        )

    def _take_beginning(self, event: HeardEvent) -> None:
        reply = self._newest
        if event.turn and (reply is None or reply.turn != event.turn):
            self._start_by_beginning(event)
        elif reply is not None:
            reply.begun = event.letters if event.part in (0, reply.heard_to + 1) else 0
            reply.may_repeat = True
            reply.last = event

    def _start_by_beginning(self, event: HeardEvent) -> None:
        """The first sentence of a reply broke off, but it told which reply it is."""
        if event.turn in self.heard:
            detail = f"part {event.part} of reply {event.turn} came after a later one"
            self._complain(FaultKind.OUT_OF_ORDER, event, detail)
            return
        # Its words broke off before they said what they answer: what is unanswered.
        left = (code for code in self.codes[: event.after] if code not in self._answered_codes())
        code = next(left, SILENCE_CODE)
        reply = HeardReply(event.turn, code, event, event, begun=event.letters, may_repeat=True)
        if event.part > 1:
            reply.skipped |= dict.fromkeys(range(1, event.part), event)
            reply.heard_to = event.part - 1
        self._check_order(event, reply)
        self.heard[event.turn] = reply
        self._newest = reply

    def _answered_codes(self) -> set[str]:
        return {reply.code for reply in self.heard.values()}

    def _check_order(self, event: HeardEvent, reply: HeardReply) -> None:
        said_at = self._said_at(reply.code, event.after)
        for other in self.heard.values():
            answers_later = said_at < self._said_at(other.code, other.first.after)
            if other.turn > reply.turn or (answers_later and reply.code != SILENCE_CODE):
                detail = f"reply {reply.turn} came after reply {other.turn}"
                self._complain(FaultKind.OUT_OF_ORDER, event, detail)

    def _said_at(self, code: str, after: int) -> int:
        """Which of the caller's turns it was, the last one of several; 0 for none."""
        return max((n for n in range(1, after + 1) if self.codes[n - 1] == code), default=0)

    def _check_memory(self, event: HeardEvent, said: Counted) -> None:
        """Whoever answers has found at least what the one before has found, and what it answers."""
        needed = max(self._known, len(self._answered_codes()) - self._forgiven)
        if said.seen < needed:
            detail = f"reply {said.turn} knew of {said.seen} turns where {needed} had been answered"
            self._complain(FaultKind.FORGOTTEN, event, detail)
        self._known = max(self._known, said.seen)
        silences = sum(reply.code == SILENCE_CODE for reply in self.heard.values())
        possible = event.after + silences
        if said.seen > possible and not self._human_came:
            detail = f"reply {said.turn} knew of {said.seen} turns where {possible} had been said"
            self._complain(FaultKind.DOUBLED, event, detail)

    def _check_claim(self, event: HeardEvent, said: Counted) -> None:
        """Once a later claim of the call has been heard, an earlier one may say nothing more."""
        if said.claim < self._claim:
            detail = f"reply {said.turn} by claim {said.claim}, which claim {self._claim} had ended"
            self._complain(FaultKind.STALE, event, detail)
        self._claim = max(self._claim, said.claim)

    def _complain(self, kind: FaultKind, event: HeardEvent, detail: str) -> None:
        """Of one kind once for each reply: a reply that is said twice is one thing."""
        if (kind, event.turn) not in self._complained:
            self._complained.add((kind, event.turn))
            self.complaints.append(Complaint(kind, event.at_s, detail, event))


class _Piece(NamedTuple):
    """Something that was heard of a reply. `broken`: the line broke, or the caller spoke, in it;
    `resumed`: it followed a phrase that is said when a line has broken."""

    at_s: float
    text: str
    broken: bool
    resumed: bool


def compare_with_record(
    report: CallReport, record: CallRecord, slack: float = 0
) -> list[Complaint]:
    """What of the recorded replies was not heard once, whole and in order.

    `slack`: letters that a voice says in the tenth of a second by which nobody knows better where
    a line broke.
    """
    replies = [
        (entry.turn, _plain(entry.text))
        for entry in record.conversation_thread
        if entry.role == "agent" and entry.turn > 0 and entry.text
    ]
    complaints: list[Complaint] = []
    at = heard_to = 0
    broken = False
    for piece in _pieces(report):
        found = _find(replies, at, heard_to, piece.text)
        if found is None:
            known = any(piece.text in text for _, text in replies)
            kind = FaultKind.REPEATED if known else FaultKind.LOST
            detail = f"heard out of its place: {piece.text[:60]!r}"
            complaints.append(Complaint(kind, piece.at_s, detail))
            continue
        index, start = found
        if index > at:
            at, heard_to, broken = index, 0, False
        turn, text = replies[at]
        again = heard_to - start
        may_repeat = broken or piece.resumed
        if again > 0 and not (may_repeat and start >= _sentence_start(text, heard_to - slack)):
            detail = f"{again} letters of the reply to turn {turn}"
            complaints.append(Complaint(FaultKind.REPEATED, piece.at_s, detail))
        if text[heard_to:start].strip() and not (may_repeat and start - heard_to <= slack):
            detail = f"{start - heard_to} letters of the reply to turn {turn}"
            complaints.append(Complaint(FaultKind.LOST, piece.at_s, detail))
        heard_to, broken = max(heard_to, start + len(piece.text)), piece.broken
    return complaints


def _pieces(report: CallReport) -> Iterator[_Piece]:
    """What was heard of replies, in order, without the holding phrases."""
    phrases = generic(report.language)
    fillers = [_plain(phrases[name]) for name in (*HOLDING_PHRASES, "go_on")]
    for turn in report.turns:
        for heard in turn.heard:
            text = whole = _plain(heard.text)
            for filler in fillers:
                text = text.removeprefix(filler).strip()
            spoken = heard.kind in ("gather", "relay") and not heard.filler
            # A holding phrase that was cut off is none of a reply either.
            if spoken and text and not any(filler.startswith(text) for filler in fillers):
                yield _Piece(heard.at_s, text, heard.cut, text != whole)


def _find(
    replies: Sequence[tuple[int, str]], at: int, heard_to: int, text: str
) -> tuple[int, int] | None:
    """Which reply, not before `at`, the words are from, and where in it they begin.

    Replies may begin alike: once one has been heard to its end, its beginning is the next one's.
    """
    heard_whole = at < len(replies) and heard_to >= len(replies[at][1])
    if heard_whole and at + 1 < len(replies) and replies[at + 1][1].startswith(text):
        return at + 1, 0
    for index in range(at, len(replies)):
        whole = replies[index][1]
        start = whole.find(text, heard_to if index == at else 0)
        if start < 0 and index == at:
            start = whole.rfind(text)
        if start >= 0:
            return index, start
    return None


def _sentence_start(text: str, before: float) -> int:
    """Where the sentence begins that was being said then."""
    ends = [0, *accumulate(map(len, split_sentences(text)))]
    return max(end for end in ends if end < before or end == 0)


def _plain(text: str) -> str:
    return " ".join(text.split())
