"""A standard operating procedure (SOP): one scenario with its sentences in each language."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from callflow.call.record import Sentence, SopChunk
from callflow.call.urgency import Urgency

Part = Literal["ask", "say", "never", "escalate"]
PARTS: Final[tuple[Part, ...]] = ("ask", "say", "never", "escalate")
"""The sections that a call is given whole; of the answers it gets those to what was asked."""
Section = Part | Literal["answers"]
SECTIONS: Final[tuple[Section, ...]] = (*PARTS, "answers")
FALLBACK_LANGUAGE: Final = "en"
LANGUAGE: Final = re.compile(r"[a-z]{2,3}")
ID: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""What scenarios and sentences may be called."""

DEFAULT_SCENARIO: Final = "entrapment_standard"
"""Taken when nothing is known: to treat a caller as trapped is the mistake that harms least."""
SILENT_SCENARIO: Final = "silent_open_line"
"""Taken when nobody has said anything yet."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class FrontMatter(BaseModel):
    """What a document says about itself.

    `urgency` is P1 (life at risk) to P5 (test or mistake). `cues` are phrases per language that
    callers use; `timers` are numbers whose names end in their unit. `needs_human` may be left out:
    P1 and P2 always fetch a person, the others when they say so. `silent` marks a machine's call.
    `unsigned` names the professions whose signature the procedure still wants.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, StringConstraints(pattern=f"^{ID.pattern}$")]
    title: _Text
    version: _Text
    group: _Text
    urgency: Urgency
    needs_human: bool | None = None
    silent: bool = False
    unsigned: tuple[_Text, ...] = ()
    timers: dict[str, _Number] = Field(default_factory=dict)
    cues: dict[str, tuple[_Text, ...]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all documents have in common: phrases by (language, id), rules that always hold."""

    phrases: dict[tuple[str, str], Sentence] = field(default_factory=dict)
    never: dict[tuple[str, str], Sentence] = field(default_factory=dict)
    answers: dict[str, tuple[Sentence, ...]] = field(default_factory=dict)
    """What is answered wherever a document says nothing else, by language."""

    def ids(self) -> set[str]:
        """Return the ids of all shared sentences that are spoken, whatever their language."""
        answers = (line.id for lines in self.answers.values() for line in lines)
        return {name for _, name in self.phrases} | set(answers)

    def condition(self, name: str, key: str) -> str | None:
        """Return the condition of a shared phrase, in whichever language it is given.

        `key`: a field of `Sentence`, such as `only_after`.
        """
        same = (known for (_, other), known in self.phrases.items() if other == name)
        return next((found for known in same if (found := getattr(known, key))), None)


@dataclass(frozen=True, slots=True)
class SopDocument:
    """One scenario. `sections` holds the sentences by (language, section).

    `examples` holds by language how callers put it. `id_line` is the line of the file (from 1) that
    names the scenario.
    """

    path: Path
    id_line: int
    front: FrontMatter
    sections: dict[tuple[str, Section], tuple[Sentence, ...]]
    examples: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The scenario that this document is about."""
        return self.front.id

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages that it has a heading for, in the order of the file."""
        return tuple(dict.fromkeys(language for language, _ in self.sections))

    @property
    def needs_human(self) -> str | None:
        """The reason why a person is always fetched (`fire_smoke is P1`), or None."""
        if self.front.urgency in ("P1", "P2"):
            return f"{self.id} is {self.front.urgency}"
        return f"{self.id} needs a person" if self.front.needs_human else None

    def answers(self, question: str, language: str) -> tuple[Sentence, ...]:
        """Return what it answers to one question of a caller, in `language` or in English."""
        for code in (language, FALLBACK_LANGUAGE):
            lines = self.sections.get((code, "answers"), ())
            if found := tuple(line for line in lines if line.answers == question):
                return found
        return ()

    def chunk(self, section: Part, language: str) -> SopChunk | None:
        """Return one section in `language`, in English, or in the first language that has it.

        A `never` chunk holds the English rules as well: a rule that nobody translated still holds.
        None where the document says nothing under this heading at all.
        """
        wanted = [language, FALLBACK_LANGUAGE, *self.languages]
        used = next((code for code in wanted if self.sections.get((code, section))), None)
        if used is None:
            return None
        sentences = self.sections[(used, section)]
        if section == "never":
            sentences = self._all_rules(used)
        return SopChunk(
            id=f"{self.id}.{section}.{used}",
            sop=self.id,
            version=self.front.version,
            section=section,
            language=used,
            sentences=sentences,
            needs_human=self.needs_human if section == "escalate" else None,
            silent=self.front.silent,
        )

    def _all_rules(self, first: str) -> tuple[Sentence, ...]:
        rules: dict[str, Sentence] = {}
        for code in dict.fromkeys((first, FALLBACK_LANGUAGE, *self.languages)):
            for rule in self.sections.get((code, "never"), ()):
                known = rules.setdefault(rule.id, rule)
                if not set(rule.forbids) <= set(known.forbids):
                    merged = tuple(dict.fromkeys((*known.forbids, *rule.forbids)))
                    rules[rule.id] = known.model_copy(update={"forbids": merged})
        return tuple(rules.values())
