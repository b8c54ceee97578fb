"""The call record: everything that another worker needs to go on with a call.

Nothing about a call lives anywhere else, so a worker that reads this record knows as much as the
one that died. The first eight fields keep the names the customer gave them; the rest is what a
takeover needs besides. Times are milliseconds since 1970 on the Redis server's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from callflow.call.state import CallState
from callflow.call.urgency import Urgency

Role = Literal["caller", "agent", "human"]
Handling = Literal["agent", "human"]


class Frozen(BaseModel):
    """A value that is never changed in place; unknown fields of a newer release are kept out.

    An error about a value does not show it: it may be what somebody said, and errors are logged.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class ThreadEntry(Frozen):
    """One thing that was said: by whom, in which turn, and when it was stored.

    Turns count from 1; what opens a call is the agent's turn 0. `digits` are keys that the caller
    pressed instead of speaking. `confidence` is the recogniser's own word on a caller's utterance,
    0 to 1, None where it gave none. `heard` is what the caller heard of a reply before they spoke
    into it; None where nobody did. `lang` is the language of a reply. `by` is the name of
    the person whose words a machine has spoken (role `human`).
    """

    role: Role
    turn: int
    text: str
    at: int
    digits: str | None = None
    confidence: float | None = None
    heard: str | None = None
    lang: str | None = None
    by: str | None = None

    @property
    def reached(self) -> str:
        """The part of it that has reached the other side."""
        return self.text if self.heard is None else self.heard


class Sentence(Frozen):
    """One sentence of a procedure.

    `only_after` names the fact that must be known before the sentence may be spoken
    (`dispatch.requested`); None means that it may be spoken at any time. `forbids` (in a `never`
    section) names the ids of sentences that this rule keeps from being spoken. `learns` is the fact
    that a question asks for; `until`, the one that makes a sentence untrue. `answers` names the
    caller's question (`language/questions.py`) that the sentence answers.
    """

    id: str
    text: str
    only_after: str | None = None
    forbids: tuple[str, ...] = ()
    learns: str | None = None
    until: str | None = None
    answers: str | None = None


class SopChunk(Frozen):
    """One part of a standard operating procedure, as it was retrieved and kept with the call.

    `sop` and `version` say which document it came from. `section` is `ask` (questions, in the
    order in which they are asked), `say` (sentences that calm and instruct), `never` (what must
    not be said or suggested) or `escalate` (when a human takes over). `score` orders chunks of one
    retrieval and means nothing beyond it. `needs_human` (on `escalate`) is the reason why this
    scenario always fetches a person; `silent` says that a machine called and nothing is spoken.
    `aside` marks what is near to the caller's words and not what the call is about: it is known,
    it may forbid, and no question or sentence of it is owed.
    """

    id: str
    sop: str
    version: str
    section: Literal["ask", "say", "never", "escalate"]
    language: str
    sentences: tuple[Sentence, ...]
    score: float = 0.0
    needs_human: str | None = None
    silent: bool = False
    aside: bool = False


class TurnAnalysis(Frozen):
    """What was read in the words of one turn, beside what it changed in the rest of the record.

    `questions` are what the caller asked, by name; `answers`, the approved sentences for them, of
    the gravest procedure first: the first that may be said answers. `learned` names the facts that
    these words told anew; `asked_again` says that the turn before asked the same.
    `confirm` is the question whose answer must be yes before what was heard counts, or that is put
    once more since its answer was not to be believed. `doubtful`: the words lower no urgency and
    deny no danger. `unclear` counts the last turns in a row, this one among them, that nothing was
    made of; `suspected`, the procedures with life at risk that were guessed and are asked about: a
    clear no takes them away again. `asks_back` is the phrase that is said in place of a reply
    then. `number_begun` are the digits of a telephone number that goes on in the next turn.
    """

    turn: int
    questions: tuple[str, ...] = ()
    answers: tuple[Sentence, ...] = ()
    learned: tuple[str, ...] = ()
    asked_again: bool = False
    confirm: Sentence | None = None
    doubtful: bool = False
    unclear: int = 0
    suspected: tuple[str, ...] = ()
    asks_back: str | None = None
    number_begun: str = ""


class Draft(Frozen):
    """The part of an unfinished reply that the caller has already been sent."""

    turn: int
    text: str
    lang: str | None = None


class Sent(Frozen):
    """How much of the reply to `turn` a relay socket has sent to be spoken, and when the last of it
    went: a socket that breaks takes what it was not sent, and what was not spoken yet.

    `left_ms` is how long it then took to say what was not said yet, by the speed of the voice;
    `played`, how much the carrier has told to have been heard, None while it tells nothing.
    """

    turn: int
    length: int
    at: int
    left_ms: int = 0
    played: int | None = None


class HumanAlert(Frozen):
    """The ringing of humans for one call, down the site's list of contacts: see `call/ladder.py`.

    `round` counts from 1, `contact_index` from 0. `attempt_id` names one attempt to ring, so that
    late word of an earlier one changes nothing. `leg` is the CallSid of the human's line, once the
    carrier has told it. `to` is the telephone of a person who wants the call (`asked_by`), rung
    before those of the site. `who` is the name of whoever is being rung, or has the call.
    """

    # The stored names are older, and records of earlier releases have them.
    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True)

    reason: str
    state: Literal["due", "ringing", "accepted", "nobody"] = "due"
    round: int = 1
    contact_index: int = Field(0, alias="rung")
    attempt_id: str | None = Field(None, alias="ring")
    leg: str | None = None
    to: str | None = None
    asked_by: str | None = None
    who: str | None = None


class Act(Frozen):
    """What people did to one thing of a call: `n` times by now, last `by`, then."""

    n: int
    by: str
    at: int


class Remark(Frozen):
    """A note of a person about the call: kept with it, and never spoken. `id` names the request.

    `urgency`: it is the reason for which they set that one; None for any other note.
    """

    id: str
    by: str
    at: int
    text: str
    urgency: Urgency | None = None


class Saying(Frozen):
    """A phrase of a person that is on its way to the caller: it stands here until it was heard.

    `id` names the request. `teller` names who was given it to say, None while nobody was; `until`
    is when it will have been said, None while that is not known. `fetched`: when the carrier was
    asked to have the caller's line come for it.
    """

    id: str
    by: str
    at: int
    text: str
    teller: str | None = None
    until: int | None = None
    fetched: int | None = None


class UrgencySet(Frozen):
    """A person's word on the urgency: it stands until something is heard that is graver than what
    had been heard then (`over`), or that speaks for a higher one and was not among what was `known`
    (`CallRecord.grounds`, as they were)."""

    to: Urgency
    over: Urgency | None
    by: str
    at: int
    reason: str | None = None
    known: dict[str, Urgency] = Field(default_factory=dict)


class Disposed(Frozen):
    """How a person has ended the call: one of `call/edits.py`."""

    what: str
    by: str
    at: int


class CallRecord(Frozen):
    """One call as a whole. `heard > answered` means that a reply is owed.

    `scenario_type` is the procedure that is being worked on, None while nothing is known;
    `open_scenarios` are all that apply, the gravest first. `understood` is the last turn whose
    words have been read for scenario, language and facts, so that a takeover need not; `hurry`, the
    last one in whose words danger was heard as they came: until it is answered the call goes ahead
    of others. `facts` are
    what the caller has told and the site is known for, `recorded` what people have noted: each is
    written by one side, so neither overwrites the other (`call/facts.py` joins them). `handling`
    is `human` from the moment at which the agent is silent for good or until a human
    hands back. `alert` and `alert_due` (when the ladder goes on) tell who is being rung. `cut` is
    what was heard of a reply that was interrupted before it was whole. `unclear` counts the last
    turns in a row that were not understood, `lost` the turns that a failover took. What people do:
    `acts` (see `call/edits.py`), `notes`, `sayings` (phrases on their way to the caller),
    `urgency_set` beside `urgency_heard`, what is heard by itself (None where nobody has set
    another: then it is `urgency`), `disposition`. `grounds` are what was heard that speaks for an
    urgency, each with the one that it speaks for. `analysis` is what was read in the words of the
    last turn that was understood.
    """

    call_sid: str
    conversation_thread: tuple[ThreadEntry, ...] = ()
    call_state: CallState
    assigned_worker: str | None = None
    last_heartbeat: int | None = None
    retrieved_sop_chunks: tuple[SopChunk, ...] = ()
    scenario_type: str | None = None
    created_at: int
    updated_at: int

    fence: int = 0
    heard: int = 0
    answered: int = 0
    attempts: int = 0
    owed_since: int | None = None
    sop_step: int = 0
    language: str = "en"
    site: str | None = None
    open_scenarios: tuple[str, ...] = ()
    urgency: Urgency | None = None
    understood: int = 0
    hurry: int = 0
    facts: dict[str, Any] = Field(default_factory=dict)
    recorded: dict[str, Any] = Field(default_factory=dict)
    draft: Draft | None = None
    handling: Handling = "agent"
    needs_human: str | None = None
    alert: HumanAlert | None = None
    alert_due: int | None = None
    cut: Draft | None = None
    sent: Sent | None = None
    unclear: int = 0
    lost: int = 0
    outcome: str | None = None
    acts: dict[str, Act] = Field(default_factory=dict)
    notes: tuple[Remark, ...] = ()
    sayings: tuple[Saying, ...] = ()
    urgency_heard: Urgency | None = None
    urgency_set: UrgencySet | None = None
    grounds: dict[str, Urgency] = Field(default_factory=dict)
    analysis: TurnAnalysis | None = None
    disposition: Disposed | None = None

    @property
    def owed(self) -> bool:
        """True while the caller has said more than has been answered."""
        return self.heard > self.answered

    @property
    def fetches_human(self) -> str | None:
        """Why the procedures of this call always fetch a person; None where they need none."""
        reasons = (chunk.needs_human for chunk in self.retrieved_sop_chunks if not chunk.aside)
        return next((reason for reason in reasons if reason), None)

    def entry(self, turn: int, role: Role) -> ThreadEntry | None:
        """The entry of `role` in `turn`, or None when nothing has been said."""
        for entry in reversed(self.conversation_thread):
            if entry.turn == turn and entry.role == role:
                return entry
        return None

    def said(self, turn: int, role: Role) -> str | None:
        """What `role` said in `turn`, or None when it has not been said."""
        entry = self.entry(turn, role)
        return None if entry is None else entry.text


class CallStatus(Frozen):
    """Where a call stands while somebody waits for its reply: a few fields of its record."""

    call_state: CallState
    assigned_worker: str | None
    handling: Handling
    needs_human: str | None
    outcome: str | None
    draft: Draft | None
    alert: HumanAlert | None
    language: str
    heard: int
    answered: int
    sayings: tuple[Saying, ...] = ()

    @classmethod
    def of(cls, record: CallRecord) -> CallStatus:
        """Where the call of a whole record stands."""
        return cls.model_validate(record.model_dump())

    @property
    def unserved(self) -> bool:
        """True when a reply is owed and no worker has had time for it."""
        return self.heard > self.answered and self.assigned_worker is None

    @property
    def with_human(self) -> bool:
        """True when a human is on the line (and not only being rung)."""
        accepted = self.alert is not None and self.alert.state == "accepted"
        return accepted and self.handling == "human"


@dataclass(frozen=True, slots=True)
class ReplyProgress:
    """What can be said to the caller of one turn by now.

    `text` grows while the reply is being worded and is final when `done`. `over`: the call is
    complete or a human's, and no more text will come from us. `status` is None where the reply came
    with its notification and nothing had to be read. `lang` is its language, None where it is not
    known.
    """

    text: str
    done: bool
    status: CallStatus | None = None
    lang: str | None = None

    @property
    def over(self) -> bool:
        """True when the call is known to be complete or to be a human's."""
        status = self.status
        if status is None:
            return False
        return status.outcome is not None or status.handling == "human"

    def is_lost(self, turn: int) -> bool:
        """True where a failover has taken the turn: the record does not have it, or has let it
        go."""
        status = self.status
        if status is None or self.done or self.over:
            return False
        return status.heard < turn or status.answered >= turn


class Word(StrEnum):
    """What a person who looks at a call wants to know first."""

    LISTENING = "listening"
    """Everything is answered: it is the caller's turn to speak."""
    QUEUED = "queued"
    """A reply is owed, and no worker has taken the call yet."""
    ANSWERING = "answering"
    """A worker holds the call and works on the reply."""
    RECOVERING = "recovering"
    """The worker fell silent or gave up: another one is about to go on."""
    WITH_A_HUMAN = "with a human"
    """The agent is silent: a human is on the line, or is being rung to be."""
    ENDED = "ended"


def word(record: CallRecord) -> Word:
    """The word for where this call stands."""
    if record.handling == "human" and record.call_state is not CallState.COMPLETE:
        return Word.WITH_A_HUMAN
    match record.call_state:
        case CallState.COMPLETE:
            return Word.ENDED
        case CallState.INCOMPLETE:
            return Word.RECOVERING
        case CallState.IN_PROGRESS:
            return Word.ANSWERING
        case CallState.PENDING:
            return Word.QUEUED if record.owed else Word.LISTENING


def waiting_since(record: CallRecord) -> int | None:
    """When the caller said what is still unanswered (server clock, ms), or None: nobody waits."""
    if not record.owed or record.call_state is CallState.COMPLETE:
        return None
    for entry in record.conversation_thread:
        if entry.role == "caller" and entry.turn == record.answered + 1:
            return entry.at
    return record.updated_at


def last_words(record: CallRecord) -> tuple[str, str] | None:
    """Who spoke last and what: a reply that is still being spoken counts. None: nobody has."""
    if record.draft is not None and record.draft.turn == record.answered + 1:
        return "agent", record.draft.text
    if not record.conversation_thread:
        return None
    entry = record.conversation_thread[-1]
    return entry.role, entry.text
