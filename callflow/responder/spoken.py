"""One reply while it is being spoken: what the caller has heard of it, and what else fits in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from callflow.call.record import CallRecord, Draft
from callflow.responder.phrases import disclosures, generic
from callflow.responder.scripted import Reply
from callflow.responder.sentences import asks, contains, leads_on, plain, split
from callflow.responder.speech import joined, remaining

MOST_SENTENCES: Final = 3
MOST_CHARS: Final = 350
"""A reply is listened to in a noisy lift by somebody who is afraid: about 20 s at the very most."""


@dataclass(slots=True)
class Spoken:
    """What has been said of the reply to one turn, the greeting not counted."""

    text: str
    """All of it, from the first letter: a takeover begins with what was heard."""
    body: list[str] = field(default_factory=list)
    """The sentences after the greeting."""

    @classmethod
    def so_far(cls, record: CallRecord) -> Spoken:
        """What the caller has been sent of the reply that is owed."""
        draft = record.draft
        text = draft.text if draft is not None and draft.turn == record.answered + 1 else ""
        words = generic(record.language)
        greeting = {plain(words["line"]), *(plain(line) for line in disclosures(record.language))}
        return cls(text, [line for line in split(text) if plain(line) not in greeting])

    def greeting(self, reply: Reply, language: str) -> list[str]:
        """The pieces of the greeting that are left; whoever knows what we are is not greeted."""
        if any(line in self.text for line in disclosures(language)):
            return []
        pieces = joined(remaining(reply.greeting, self.text), self.text)
        self.text += "".join(pieces)
        return pieces

    def add(self, sentence: str) -> str:
        """Say a sentence; returns it with the space before it."""
        (piece,) = joined([sentence], self.text)
        self.text += piece
        self.body.append(sentence)
        return piece

    def holds(self, sentence: str) -> bool:
        """Whether it has been said already in this reply, in whatever signs and letters."""
        return contains(plain(self.text), plain(sentence))

    @property
    def full(self) -> bool:
        """Whether as much has been said as somebody can listen to."""
        return len(self.body) >= MOST_SENTENCES or self._letters >= MOST_CHARS

    def has_room(self, sentence: str) -> bool:
        """Whether it may still be said: it fits, and the last one there is room for leads on."""
        if not self.body:
            return True
        if self.full or self._letters + len(sentence) > MOST_CHARS:
            return False
        return len(self.body) < MOST_SENTENCES - 1 or leads_on(sentence)

    @property
    def _letters(self) -> int:
        return sum(map(len, self.body))

    @property
    def asked(self) -> bool:
        """Whether a question has been asked."""
        return any(asks(sentence) for sentence in self.body)

    @property
    def leads_on(self) -> bool:
        """Whether the caller knows what to do now."""
        return bool(self.body) and leads_on(self.body[-1])

    @property
    def whole(self) -> bool:
        """Whether nothing more need be said: it ends with a question."""
        return bool(self.body) and asks(self.body[-1])

    def as_draft(self, record: CallRecord) -> CallRecord:
        """The record as another responder finds it that goes on from here."""
        if not self.text:
            return record
        return record.model_copy(update={"draft": Draft(turn=record.answered + 1, text=self.text)})
