"""Reckons what a caller has heard of what one relay socket was sent, and when our voice goes on.

The carrier tells what was heard before an interruption, and some carriers what was played. For the
rest we know how long it takes to say so many letters. It also stops our voice at a cough or a
slammed door: where no words follow, the reply goes on. Times are monotonic, in seconds.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final

from callflow.call.record import CallRecord

TOLD_LATE_S = 5.0
"""So much later than we reckon a carrier tells that something was played to its end, if at all: a
phrase whose socket lives on for so long was heard."""

LOOK_AGAIN_S = 0.25
"""Sooner than that it is not looked again whether a phrase was heard, should that not be noted."""

_SENTENCE = re.compile(r".*?(?:[.!?。！？…]+[\"'”’»)]*\s*|$)", re.DOTALL)
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")

WIDE_LETTERS = 3.0
"""A Chinese letter takes as long to say as so many Latin ones."""


EARSHOT_LETTERS = 4
"""A sentence that lacks no more than these counts as heard: clocks and wires are no more exact."""


def spoken_s(text: str, letters_per_s: float) -> float:
    """How long it takes to say `text`, s."""
    wide = len(_WIDE.findall(text))
    return (len(text) - wide + wide * WIDE_LETTERS) / letters_per_s


def unspoken(text: str, left_s: float, letters_per_s: float) -> str:
    """What of `text` cannot have been spoken when saying the rest of it takes `left_s` more.

    Whole sentences: one that broke off in the middle is said again, since half an instruction is
    none. Empty when there was time for all of it.
    """
    left_s -= EARSHOT_LETTERS / letters_per_s
    if left_s <= 0:
        return ""
    sentences = [found for found in _SENTENCE.findall(text) if found]
    tail: list[str] = []
    for sentence in reversed(sentences):
        if left_s <= 0:
            break
        tail.insert(0, sentence)
        left_s -= spoken_s(sentence, letters_per_s)
    return "".join(tail)


def unplayed(text: str, played: int) -> str:
    """What of `text` is to be said again when its first `played` letters were heard: the sentence
    that broke off there, and all that comes after it."""
    begin = 0
    for sentence in _SENTENCE.findall(text):
        end = begin + len(sentence)
        if played < begin + len(sentence.rstrip()):
            break
        begin = end
    return text[begin:]


def heard_of(sent: str, until: str) -> str | None:
    """How much of `sent` was heard when the carrier says that `until` was spoken last; None when
    those words are not from it (a holding phrase was interrupted)."""
    until = until.strip()
    if not until:
        return ""
    found = sent.find(until)
    return None if found < 0 else sent[: found + len(until)]


def heard_part(record: CallRecord, now_ms: int, letters_per_s: float) -> str:
    """What a caller can have heard by `now_ms` of the newest reply, which a socket was sent that is
    gone. Empty when no socket was sent any of it."""
    sent, draft = record.sent, record.draft
    turn = record.answered if draft is None else draft.turn
    text = record.said(turn, "agent") if draft is None else draft.text
    if sent is None or sent.turn != turn or text is None:
        return ""
    said = text[: sent.length]
    if sent.played is not None:
        left = unplayed(said, sent.played)
    else:
        left_s = (sent.left_ms - (now_ms - sent.at)) / 1000
        left = unspoken(said, left_s, letters_per_s)
    return said[: len(said) - len(left)]


@dataclass(slots=True)
class SentPhrase:
    """A phrase of a person that was sent; `until`: when it will have been said; `played`: how many
    of its letters the carrier tells to have been heard; `heard`: that is known to be all."""

    text: str
    until: float
    played: int = 0
    heard: bool = False

    def mark_played(self, words: str) -> None:
        """The carrier tells that `words` were played."""
        at = self.text.find(words, self.played)
        if at >= 0:
            self.played = at + len(words)
        elif self.text in words:
            self.played = len(self.text)
        else:
            return
        self.heard = self.heard or self.played >= len(self.text) - EARSHOT_LETTERS


@dataclass
class Playback:
    """What was sent on one socket, by turn, and what was heard of it.

    `greeted_until`: so long the carrier speaks by itself when the socket opens.
    """

    letters_per_s: float
    greeted_until: float = 0.0
    sent: dict[int, str] = field(default_factory=dict)
    """What was sent of the reply to each turn."""
    heard: dict[int, int] = field(default_factory=dict)
    """How much of that the carrier tells to have been heard, in letters."""
    cut: set[int] = field(default_factory=set)
    """The turns into whose replies the caller has spoken."""
    tells: bool = False
    """The carrier tells what was played: then what it has not told was not heard."""
    quiet_at: float = 0.0
    """When the caller will have heard everything that was sent."""
    phrases: dict[str, SentPhrase] = field(default_factory=dict)
    """Phrases of people that were sent and that nobody has noted as heard, by their ids."""
    stopped_at: float = math.inf

    def add(self, text: str, now: float) -> None:
        """Something was sent to be spoken, part of a reply or not."""
        self.quiet_at = max(self.quiet_at, now) + spoken_s(text, self.letters_per_s)

    def add_reply(self, turn: int, text: str, now: float) -> None:
        """`text` more of the reply to `turn` was sent."""
        self.sent[turn] = self.sent.get(turn, "") + text
        self.add(text, now)

    def add_phrase(self, name: str, text: str, now: float) -> None:
        """A phrase of a person was sent."""
        self.add(text, now)
        behind_greeting = self.greeted_until + spoken_s(text, self.letters_per_s)
        self.phrases[name] = SentPhrase(text, max(self.quiet_at, behind_greeting))

    def resume(self, turn: int, text: str, since: int | None = None) -> None:
        """`text` of the reply to `turn` was sent before this socket opened, and heard as far as
        `since`, or as a whole."""
        self.sent[turn] = text
        self.heard[turn] = len(text) if since is None else since

    def stop(self, now: float) -> None:
        """Nothing more is said on this socket. Twice is once."""
        self.stopped_at = min(self.stopped_at, now)

    def left_s(self, now: float) -> float:
        """How long it takes to say what has been sent and not been said yet."""
        return max(0.0, self.quiet_at - now)

    def mark_played(self, text: str) -> tuple[int, int] | None:
        """These words were heard: of the reply to which turn, and how much of it was heard by now.
        None for words that are no part of a reply."""
        self.tells = True
        words = text.strip()
        if not words:
            return None
        for phrase in self.phrases.values():
            phrase.mark_played(words)
        for turn in sorted(self.sent):
            sent, heard = self.sent[turn], self.heard.get(turn, 0)
            at = sent.find(words, heard)
            # Some carriers tell the new words, some all of them.
            if at < 0 and len(words) > heard and sent.lstrip().startswith(words):
                at = sent.find(words)
            if at >= 0:
                self.heard[turn] = at + len(words)
                return turn, self.heard[turn]
        return None

    def interrupt(self, until: str, now: float) -> tuple[int, str] | None:
        """The caller spoke into it: in the reply to which turn, and what they had heard of it."""
        self.quiet_at = now
        for turn in sorted(self.sent, reverse=True):
            heard = heard_of(self.sent[turn], until)
            if heard is not None:
                self.cut.add(turn)
                return turn, heard
        return None

    def go_on(self, turn: int, heard: str) -> None:
        """It was no interruption: the reply to `turn` goes on with the sentence that broke off."""
        sent = self.sent[turn]
        kept = len(sent) - len(unplayed(sent, len(heard)))
        self.sent[turn], self.heard[turn] = sent[:kept], kept
        self.cut.discard(turn)

    def interrupt_phrases(self, until: str, now: float) -> bool:
        """The same for phrases: one that was begun counts as heard. True when others were dropped:
        what the carrier had not begun, it does not say."""
        for phrase in self.phrases.values():
            begun = phrase.played or phrase.until <= now or heard_of(phrase.text, until)
            phrase.heard = phrase.heard or bool(begun)
        dropped = [name for name, phrase in self.phrases.items() if not phrase.heard]
        for name in dropped:
            del self.phrases[name]
        return bool(dropped)

    def heard_phrases(self, now: float) -> list[str]:
        """The phrases that were heard by now, by their ids."""
        over = min(now, self.stopped_at) - self._late_s
        return [name for name, one in self.phrases.items() if one.heard or one.until < over]

    def next_phrase_s(self, most_s: float, now: float) -> float:
        """In how many seconds, `most_s` at most, another phrase may have been heard."""
        over = min((one.until for one in self.phrases.values()), default=math.inf) + self._late_s
        return min(most_s, max(LOOK_AGAIN_S, over - now))

    @property
    def _late_s(self) -> float:
        return TOLD_LATE_S if self.tells else 0.0


NO_WORDS_S: Final = 1.6
"""A noise: no word was guessed at for so long."""

WORDS_S: Final = 2.8
"""After the first guess at words the whole of them may take so long to come; a caller who hears
nothing for 4 s meanwhile did not speak."""

FLOWING_S: Final = 1.5
"""Who speaks on is guessed at again within so long, and each guess is longer than the last."""

MOST_S: Final = 12.0
"""Whoever speaks on for longer hears that we are there."""

NOISES_MOST: Final = 3
"""So many in a row, and no words between them: a human is rung."""


@dataclass(slots=True)
class BargeIn:
    """What was heard since our voice was stopped, or since words came last."""

    noises: int = 0
    """How many in a row have brought no words."""
    _began: float | None = None
    _due: float = 0.0
    _heard_at: float = 0.0
    _letters: int = 0

    def hear_sound(self, now: float, guess: str = "") -> None:
        """Our voice was stopped, or words were guessed at."""
        flows = len(guess) > self._letters and now - self._heard_at < FLOWING_S
        if self._began is None:
            self._began, self._due = now, now + (WORDS_S if guess else NO_WORDS_S)
        elif flows or (guess and not self._letters):
            self._due = min(now + WORDS_S, self._began + (MOST_S if self._letters else WORDS_S))
        self._heard_at, self._letters = now, max(self._letters, len(guess))

    def hear_words(self) -> None:
        """Words came, or a key was pressed: it was no noise."""
        self.noises, self._began, self._letters = 0, None, 0

    def due_in_s(self, now: float) -> float | None:
        """In how many seconds our voice goes on unless words come; None: nothing stopped it."""
        return None if self._began is None else max(0.0, self._due - now)

    def is_speaking(self, now: float) -> bool:
        """True while words may still be on their way."""
        return self._began is not None and now < self._due

    def go_on(self) -> None:
        """It was a noise, and our voice goes on."""
        self.noises, self._began, self._letters = self.noises + 1, None, 0
