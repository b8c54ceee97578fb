"""The contract of language models: a prompt goes in, text comes out while it is written.

The prompt of one turn is two files with gaps, filled from the record. What the caller said is data.
It stands between marks that it cannot contain, on lines of its own, and nothing in it is taken for
a gap to fill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Event
from typing import Final, Literal, Protocol

from callflow.call.facts import known
from callflow.call.language_tag import primary_language
from callflow.call.record import CallRecord, ThreadEntry
from callflow.errors import CallflowError
from callflow.responder.scripted import approved, next_questions, rules
from callflow.responder.sentences import plain

MOST_CHARS: Final = 14_000
"""Of both parts together, about 4,000 tokens: what a small model reads within its deadline."""

LONGEST_UTTERANCE: Final = 1_000
MOST_SENTENCES: Final = 40

_FILES: Final = {
    "system": frozenset(("language", "rules")),
    "turn": frozenset(
        (
            *("lift", "facts", "sayable", "related", "not_yet", "questions"),
            *("conversation", "utterance", "heard"),
        )
    ),
}
_GAP = re.compile(r"\{([a-z_]+)\}")
_NAMES = {"en": "English", "zh": "Mandarin Chinese (simplified characters)", "es": "Spanish"}
_ECHO_CHARS = 20


class PromptError(CallflowError):
    """A prompt file of the operator's that cannot be used."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


@dataclass(frozen=True, slots=True)
class ModelPrompt:
    """What a model is asked in one turn. `own` is the prompt's own words, which it must not say."""

    system: str
    turn: str
    own: str = ""

    def echoes(self, sentence: str) -> bool:
        """Return whether a sentence is one of the prompt's own and not one of the procedure's."""
        words = plain(sentence)
        return len(words) >= _ECHO_CHARS and words in self.own


@dataclass(frozen=True, slots=True)
class Prompts:
    """The two files of a prompt: `system` holds for every turn, `turn` for one."""

    system: str
    turn: str

    @classmethod
    @cache
    def load(cls, folder: Path | None = None) -> Prompts:
        """The files in `folder`, each that is not there from those that callflow brings; read once
        in a process.

        Raises PromptError for a folder that is none, a gap that nothing fills, one that is missing,
        and a file that cannot be read.
        """
        if folder is not None and not folder.is_dir():
            raise PromptError(str(folder), "is no folder; name the one that holds your prompts")
        return cls(*(_read_checked(name, gaps, folder) for name, gaps in _FILES.items()))

    def fill(self, record: CallRecord, lift: str = "") -> ModelPrompt:
        """The prompt for the turn that is owed; `lift` is what is known about where the caller is.

        The oldest turns are left out first when it grows beyond MOST_CHARS.
        """
        never = [f"- Never: {rule}" for rule in rules(record)]
        system = _fill(
            self.system, {"language": _language_name(record.language), "rules": "\n".join(never)}
        )
        gaps = _gap_values(record, lift)
        room = MOST_CHARS - len(system) - len(_fill(self.turn, gaps | {"conversation": ""}))
        gaps["conversation"] = _render_conversation(record, max(room, 0))
        return ModelPrompt(system, _fill(self.turn, gaps), plain(system))


def _read_checked(name: str, gaps: frozenset[str], folder: Path | None) -> str:
    path = folder / f"{name}.md" if folder is not None else None
    if path is None or not path.exists():
        return files("callflow.responder").joinpath(f"prompts/{name}.md").read_text("utf-8")
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(str(path), f"cannot be read: {error}") from error
    found = set(_GAP.findall(text))
    if strange := found - gaps:
        listed = ", ".join(f"{{{gap}}}" for gap in sorted(gaps))
        raise PromptError(str(path), f"nothing fills {{{min(strange)}}}; there are {listed}")
    if missing := gaps - found:
        raise PromptError(str(path), f"{{{min(missing)}}} is missing: the model would not know it")
    return text


def _fill(text: str, gaps: Mapping[str, str]) -> str:
    """All gaps at once, so that what fills one is not searched for another."""
    return _GAP.sub(lambda gap: gaps[gap[1]], text)


def _gap_values(record: CallRecord, lift: str) -> dict[str, str]:
    sentences = approved(record)
    due = next_questions(record)
    now = [one for one in sentences.values() if one.waits_for is None and one.section == "say"]
    waiting = [one for one in sentences.values() if one.waits_for is not None]
    facts = [f"{name}={_one_line(str(value))}" for name, value in sorted(known(record).items())]
    return {
        "lift": _one_line(lift) or "not known",
        "facts": "; ".join(facts) or "nothing",
        "sayable": _join_lines(f"[{one.id}] {one.text}" for one in now if not one.aside),
        "related": _join_lines(f"[{one.id}] {one.text}" for one in now if one.aside),
        "not_yet": _join_lines(f"{one.text} (waits for {one.waits_for})" for one in waiting),
        "questions": _join_lines(f"[{name}] {sentences[name].text}" for name in due),
        "utterance": _fence(record.said(record.answered + 1, "caller") or "(silence)"),
        "heard": _render_draft(record),
    }


def _join_lines(lines: Iterator[str]) -> str:
    return "\n".join(list(lines)[:MOST_SENTENCES]) or "(none)"


def _render_conversation(record: CallRecord, room: int) -> str:
    """Return the turns before this one, the newest that fit into `room` letters."""
    lines: list[str] = []
    before = [entry for entry in record.conversation_thread if entry.turn <= record.answered]
    for entry in reversed(before):
        line = _render_entry(entry)
        room -= len(line) + 1
        if room < 0:
            left_out = len(before) - len(lines)
            lines.append(f"(the oldest {left_out} entries are left out)")
            break
        lines.append(line)
    return "\n".join(reversed(lines)) or "(this is the first turn)"


def _render_entry(entry: ThreadEntry) -> str:
    if entry.role == "caller":
        return f"caller: {_fence(entry.text)}"
    who = "you" if entry.role == "agent" else "a person of ours"
    cut = "" if entry.heard is None else " (the caller spoke here and heard no more of it)"
    return f"{who}: {_one_line(entry.reached)}{cut}"


def _render_draft(record: CallRecord) -> str:
    turn = record.answered + 1
    draft, cut = record.draft, record.cut
    if draft is None or draft.turn != turn or not draft.text.strip():
        return "Write your reply now."
    reached = cut.text if cut is not None and cut.turn == turn else draft.text
    return (
        "The caller has already heard this beginning of your reply:\n"
        f"{_one_line(reached)}\n"
        "Go on right after it. Do not say any of it again and do not begin anew."
    )


def _fence(text: str) -> str:
    return f"<<<CALLER {_one_line(text)[:LONGEST_UTTERANCE]} CALLER>>>"


def _one_line(text: str) -> str:
    """One line without the marks of the fence: nothing in it can end the fence or begin a line."""
    return " ".join(text.replace("<", " ").replace(">", " ").split())


def _language_name(tag: str) -> str:
    return _NAMES.get(primary_language(tag), tag or "English")


Failure = Literal["slow", "cut", "refused", "busy", "server", "unreachable", "auth", "nonsense"]


class ModelError(CallflowError):
    """A model did not word a reply. `kind` says why, in one word that goes into the journal:

    slow (first word or whole reply later than its deadline) · cut (broke off) · refused (will not
    answer this) · busy (429) · server (5xx) · unreachable · auth (key, account or model's name) ·
    nonsense (not what was asked for, or not a word).

    `status` is the HTTP status where there was one; `retry_after_s`, when a busy one wants to be
    asked again.
    """

    def __init__(
        self,
        model: str,
        kind: Failure,
        reason: str = "",
        *,
        status: int | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        self.model = model
        self.kind: Failure = kind
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s
        why = f": {reason}" if reason else ""
        super().__init__(f"the model {model} did not word the reply ({kind}){why}")


class ModelUnusable(CallflowError):
    """A model that cannot be used as it is configured: what to change."""

    def __init__(self, spec: str, reason: str) -> None:
        self.spec = spec
        self.reason = reason
        super().__init__(f"the model {spec!a} cannot be used: {reason}")


class Model(Protocol):
    """One model at one endpoint. Threads may share it; a forked child opens its own sockets."""

    name: str
    """What it is called in the journal and in the breaker; holds no secret."""

    def stream(
        self, prompt: ModelPrompt, timeout_s: float, stop: Event, *, first_s: float | None = None
    ) -> Iterator[str]:
        """Yield the reply as it comes; ends when it is whole, or early when `stop` is set.

        Raises ModelError, "slow" at the latest after `timeout_s`, and after `first_s` when not a
        letter has come. Closing the iterator hangs up on the endpoint.
        """
        ...
