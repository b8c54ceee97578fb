"""The front matter of an SOP file: YAML between two `---` lines, checked key by key.

Scalars are read as text (no `no` that turns into False, no dates) and pydantic gives them their
types, so a complaint can always name the line of the key that caused it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from callflow.procedures.source import Source, did_you_mean

Urgency = Literal["P1", "P2", "P3", "P4", "P5"]
LANGUAGE = re.compile(r"[a-z]{2,3}")
SCENARIO_ID = r"^[a-z][a-z0-9_]{0,63}$"

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_TIMER = re.compile(r"[a-z][a-z0-9_]*_(ms|s|min|h)")
# libyaml where PyYAML was built with it: eight times faster.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_ADVICE = {
    "missing": "is missing; add it to the front matter",
    "id": "must be lower-case letters, digits and _, such as power_failure",
    "urgency": "must be P1, P2, P3, P4 or P5",
    "needs_human": "must be true or false",
    "silent": "must be true or false",
    "cues": "must list phrases per language, such as en: [stuck, will not open]",
    "timers": "must be numbers of zero or more, such as human_ack_s: 30",
    "title": "must be one line of at most 200 characters",
    "version": "must be one line of at most 200 characters",
    "group": "must be one line of at most 200 characters",
}


class FrontMatter(BaseModel):
    """What a document says about itself.

    `urgency` is P1 (life at risk) to P5 (test or mistake). `cues` are phrases per language that
    callers use; `timers` are numbers whose names end in their unit. `needs_human` may be left out:
    P1 and P2 always fetch a person, the others when they say so. `silent` marks a machine's call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: Annotated[str, StringConstraints(pattern=SCENARIO_ID)]
    title: _Text
    version: _Text
    group: _Text
    urgency: Urgency
    needs_human: bool | None = None
    silent: bool = False
    timers: dict[str, _Number] = Field(default_factory=dict)
    cues: dict[str, tuple[_Text, ...]] = Field(default_factory=dict)


@dataclass(slots=True)
class _Reader:
    """Turns YAML nodes into plain values and remembers the line of each key."""

    source: Source
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)

    def value(self, node: yaml.Node, where: tuple[str | int, ...] = ()) -> Any:
        line = node.start_mark.line + 2
        self.lines.setdefault(where, line)
        if id(node) in self.seen:
            self.source.fail(line, "YAML anchors are not supported; write the value out")
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(child, (*where, index)) for index, child in enumerate(node.value)]
        return str(node.value)

    def _mapping(self, node: yaml.MappingNode, where: tuple[str | int, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 2
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else ""
            if not key:
                self.source.fail(line, "a key must be a plain word, such as title:")
            if key in found:
                self.source.fail(line, f"{key} is given twice; keep one of them")
            self.lines[(*where, key)] = line
            found[key] = self.value(value_node, (*where, key))
        return found


def read_front_matter(source: Source) -> tuple[FrontMatter, dict[str, int], int]:
    """Return the front matter, the line of each top-level key and the index of the body's line.

    Raises SopError for anything that is missing, unknown, doubled or of the wrong kind.
    """
    end = _closing_line(source)
    reader = _Reader(source)
    values = _load(source, "\n".join(source.lines[1:end]), reader)
    known = FrontMatter.model_fields
    for key in values:
        if key not in known:
            source.fail(reader.lines[(key,)], f"unknown key {key!r}{did_you_mean(key, known)}")
    try:
        front = FrontMatter.model_validate(values)
    except ValidationError as error:
        _refuse(source, reader, error.errors()[0])
    _check(source, reader, front)
    key_lines = {str(where[0]): line for where, line in reader.lines.items() if len(where) == 1}
    return front, key_lines, end + 1


def _closing_line(source: Source) -> int:
    if source.lines[0].strip() != "---":
        source.fail(1, "no front matter; the first line must be --- and another --- must end it")
    for index, text in enumerate(source.lines[1:], start=1):
        if text.rstrip() == "---":
            return index
    source.fail(1, "the front matter is never closed; end it with a line ---")


def _load(source: Source, text: str, reader: _Reader) -> dict[str, Any]:
    try:
        node = yaml.compose(text, Loader=_LOADER)
        values = reader.value(node) if node is not None else {}
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "cannot be read"
        source.fail(mark.line + 2 if mark else 1, f"not valid YAML ({problem}); try quotes")
    except (yaml.YAMLError, RecursionError, ValueError):
        source.fail(1, "not valid YAML; write one `key: value` on each line")
    if not isinstance(values, dict):
        source.fail(2, "the front matter must be `key: value` lines, such as urgency: P3")
    return values


def _refuse(source: Source, reader: _Reader, problem: ErrorDetails) -> None:
    where = tuple(problem["loc"])
    top = str(where[0]) if where else "front matter"
    line = 1
    for length in range(len(where), 0, -1):
        if where[:length] in reader.lines:
            line = reader.lines[where[:length]]
            break
    advice = _ADVICE.get("missing" if problem["type"] == "missing" else top, problem["msg"])
    source.fail(line, f"{top} {advice}")


def _check(source: Source, reader: _Reader, front: FrontMatter) -> None:
    for language in front.cues:
        if not LANGUAGE.fullmatch(language):
            source.fail(
                reader.lines[("cues", language)],
                f"cues: {language!r} is no language; use a code such as en, zh or es",
            )
    for timer in front.timers:
        if not _TIMER.fullmatch(timer):
            source.fail(
                reader.lines[("timers", timer)],
                f"timers: {timer!r} has no unit; end the name in _ms, _s, _min or _h",
            )
    if front.needs_human is False and front.urgency in ("P1", "P2"):
        source.fail(
            reader.lines[("needs_human",)],
            f"{front.urgency} always fetches a person; remove needs_human: false",
        )
