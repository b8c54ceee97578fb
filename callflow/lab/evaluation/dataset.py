"""Reads labelled utterances, and other sets of procedures, from JSON lines.

Two forms of labels are read, side by side and mixed:

    {"id": "U001", "lang": "en", "scenario": GROUP, "gold": [CHUNK, …], "utterance": "…"}
    {"id": "en01", "lang": "en", "scenario": SCENARIO, "also": [SCENARIO, …], "urgency": "P1",
     "text": "…"}

Some words name a group and a scenario of that group alike: the first form means the group, the
second the scenario, where there is a choice. What else stands in a line is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO, Final, get_args

from callflow.call.language_tag import primary_language
from callflow.call.urgency import Urgency
from callflow.call.utterance import MAX_UTTERANCE_CHARS, clean
from callflow.errors import CallflowError, did_you_mean
from callflow.retrieval.corpus import Corpus, Example, Passage

STDIN: Final = Path("-")
_URGENCIES: Final = get_args(Urgency)


class LabelError(CallflowError):
    """A file of labelled lines that cannot be used: where, and what to change."""

    def __init__(self, path: Path | str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")


@dataclass(frozen=True, slots=True)
class Words:
    """The words that labels are made of: what the procedures at hand are called.

    `groups` by scenario, `urgencies` by scenario, and the languages that somebody could be
    answered in. `more_groups` are those of procedures that are no scenarios of ours.
    """

    groups: Mapping[str, str]
    urgencies: Mapping[str, Urgency]
    languages: frozenset[str]
    more_groups: frozenset[str] = frozenset()

    def is_group(self, label: str) -> bool:
        """True when a procedure belongs to the group of this name."""
        return label in self.more_groups or label in self.groups.values()

    def members(self, group: str) -> tuple[str, ...]:
        """The scenarios of a group."""
        return tuple(name for name, of in self.groups.items() if of == group)


@dataclass(frozen=True, slots=True)
class Labelled:
    """One utterance and what is right about it.

    `scenario` is None where the label is a group; then `group` is it. `also` are further scenarios
    that would be right. `gold` are ids of chunks that answer it, those that nobody has included.
    `danger`: is life at risk; None where the label does not tell.
    """

    where: str
    id: str
    language: str
    utterance: str
    label: str
    scenario: str | None
    group: str
    also: tuple[str, ...] = ()
    gold: tuple[str, ...] = ()
    danger: bool | None = None

    @property
    def asked(self) -> str:
        """The label, told from a scenario of the same name where it is a group."""
        return self.scenario or f"{self.group} (group)"


def shipped() -> list[Path]:
    """Return the files that callflow brings: one of each form."""
    folder = Path(str(files("callflow.lab.evaluation").joinpath("data")))
    return sorted(folder.glob("*.jsonl"))


def read(path: Path, stdin: BinaryIO, words: Words) -> list[Labelled]:
    """Return the labelled utterances of one file, in its order; `-` is read from `stdin`.

    Raises LabelError for a file that cannot be read, a line that is of neither form or has a label
    or language that is unknown, and a file in which there is nothing.
    """
    return [
        label(line, words, group_first="utterance" in line.values) for line in lines_of(path, stdin)
    ]


@dataclass(frozen=True, slots=True)
class Line:
    """One JSON object of a file, and the way to refuse it."""

    path: Path | str
    number: int
    values: Mapping[str, Any]

    def fail(self, reason: str) -> LabelError:
        """What to raise because of this line."""
        return LabelError(self.path, self.number, reason)

    def text(self, key: str) -> str:
        """The text under `key`. Raises LabelError where there is none."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.fail(f"{key} must be a text, such as {{{json.dumps(key)}: …}}")
        if len(value) > MAX_UTTERANCE_CHARS:
            raise self.fail(f"{key} is longer than {MAX_UTTERANCE_CHARS} characters")
        return clean("", value)

    def filled(self, key: str) -> str:
        """The same where it may not be empty."""
        if not (text := self.text(key)):
            raise self.fail(f"{key} is missing or is no text; every line needs it")
        return text

    def texts(self, key: str) -> tuple[str, ...]:
        """The list of texts under `key`, which may be left out. Raises LabelError."""
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fail(f"{key} must be a list of texts, such as {{{json.dumps(key)}: []}}")
        return tuple(value)

    def share(self, key: str) -> float | None:
        """The number from 0 to 1 under `key`, which may be left out. Raises LabelError."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise self.fail(f"{key} must be a number from 0 to 1")
        return float(value)

    def language(self, languages: frozenset[str]) -> str:
        """The language under `lang`, `zh` for `zh-CN`. Raises LabelError for one nobody speaks."""
        tag = self.text("lang")
        code = primary_language(tag)
        if code not in languages:
            hint = did_you_mean(tag, languages)
            raise self.fail(f"no procedure speaks the language {tag!r}{hint}")
        return code


def lines_of(path: Path, stdin: BinaryIO | None = None, *, least: int = 1) -> Iterator[Line]:
    """Yield each line that has something in it. Raises LabelError; see `read`."""
    shown: Path | str = "stdin" if path == STDIN else path
    try:
        data = stdin.read() if stdin is not None and path == STDIN else path.read_bytes()
    except OSError as error:
        raise LabelError(shown, 1, f"cannot be read ({error.strerror})") from error
    found = 0
    # Only \n ends a line of JSON lines: U+2028 may stand in a text.
    for number, raw in enumerate(data.split(b"\n"), start=1):
        if raw := raw.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").strip():
            found += 1
            yield Line(shown, number, _object(shown, number, raw))
    if found < least:
        raise LabelError(shown, 1, "the file is empty; write one JSON object on each line")


def _object(shown: Path | str, number: int, raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise LabelError(shown, number, "not UTF-8 text; save the file as UTF-8") from error
    except json.JSONDecodeError as error:
        reason = f"not valid JSON ({error.msg} at column {error.colno}); one object on each line"
        raise LabelError(shown, number, reason) from error
    except (RecursionError, ValueError) as error:
        raise LabelError(shown, number, "not valid JSON; write one object on each line") from error
    if not isinstance(value, dict):
        raise LabelError(shown, number, "no JSON object; each line must be one, { to }")
    return value


def read_corpus(chunks: Path, examples: Path) -> Corpus:
    """Read another set of procedures; each chunk is a topic of its own.

    A chunk is `{"id", "scenario", "title", "text"}`, its group the scenario; an example is
    `{"lang", "chunk", "utterance"}`. Other keys are left alone. Raises LabelError.
    """
    passages: dict[str, Passage] = {}
    for line in lines_of(chunks):
        name, group = line.filled("id"), line.filled("scenario")
        if name in passages:
            raise line.fail(f"the id {name} is given twice; ids must differ")
        language = line.filled("lang") if "lang" in line.values else "en"
        title, text = line.filled("title"), line.filled("text")
        passages[name] = Passage(name, name, group, language, title, f"{title}. {text}")
    found = []
    for line in lines_of(examples, least=0):
        if (topic := line.filled("chunk")) not in passages:
            raise line.fail(f"chunk {topic!r} is not in {chunks.name}; use an id that is")
        found.append(Example(topic, line.filled("lang"), line.filled("utterance")))
    return Corpus(tuple(passages.values()), tuple(found))


def label(line: Line, words: Words, *, group_first: bool) -> Labelled:
    """Return the utterance of a line with its label. `group_first`: a label that names a group and
    a scenario alike means the group. Raises LabelError."""
    first_form = "utterance" in line.values
    if first_form == ("text" in line.values):
        raise line.fail("write what the caller says under one key: utterance, or text")
    utterance = line.text("utterance" if first_form else "text")
    named = line.text("scenario")
    scenario, group = _meaning(line, named, words, group_first=group_first)
    also = line.texts("also")
    for other in also:
        _meaning(line, other, words, group_first=False)
    return Labelled(
        where=f"{line.path}:{line.number}",
        id=line.text("id") if "id" in line.values else f"line {line.number}",
        language=line.language(words.languages),
        utterance=utterance,
        label=named,
        scenario=scenario,
        group=group,
        also=also,
        gold=line.texts("gold"),
        danger=_danger(line, scenario, group, words),
    )


def _meaning(line: Line, label: str, words: Words, *, group_first: bool) -> tuple[str | None, str]:
    """The scenario that a label names, if it names one, and the group."""
    known = label in words.groups
    if known and not (group_first and words.is_group(label)):
        return label, words.groups[label]
    if words.is_group(label):
        return None, label
    every = {*words.groups, *words.groups.values(), *words.more_groups}
    raise line.fail(f"no scenario or group is called {label!r}{did_you_mean(label, every)}")


def _danger(line: Line, scenario: str | None, group: str, words: Words) -> bool | None:
    """What the label says about life at risk: its own urgency, or that of all it could mean."""
    urgency = line.values.get("urgency")
    if urgency is not None and urgency not in _URGENCIES:
        raise line.fail(f"urgency must be one of {', '.join(_URGENCIES)}")
    if urgency is not None:
        return bool(urgency == "P1")
    meant = words.members(group) if scenario is None else (scenario,)
    grave = {words.urgencies[name] == "P1" for name in meant}
    return grave.pop() if len(grave) == 1 else None
