"""The front matter of an SOP file: YAML between two `---` lines, checked key by key.

Scalars are read as text (no `no` that turns into False, no dates) and pydantic gives them their
types, so a complaint can always name the line of the key that caused it.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from callflow import strict_yaml
from callflow.errors import did_you_mean
from callflow.procedures.source import Source
from callflow.strict_yaml import YamlMapping

Urgency = Literal["P1", "P2", "P3", "P4", "P5"]
LANGUAGE = re.compile(r"[a-z]{2,3}")
SCENARIO_ID = r"^[a-z][a-z0-9_]{0,63}$"

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_TIMER = re.compile(r"[a-z][a-z0-9_]*_(ms|s|min|h)")

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


def read_front_matter(source: Source) -> tuple[FrontMatter, dict[str, int], int]:
    """Return the front matter, the line of each top-level key and the index of the body's line.

    Raises SopError for anything that is missing, unknown, doubled or of the wrong kind.
    """
    end = _closing_line(source)
    values = _load(source, "\n".join(source.lines[1:end]))
    known = FrontMatter.model_fields
    for key in values:
        if key not in known:
            source.fail(values.lines[key], f"unknown key {key!r}{did_you_mean(key, known)}")
    try:
        front = FrontMatter.model_validate(values)
    except ValidationError as error:
        _refuse(source, values, error.errors()[0])
    _check(source, values, front)
    return front, values.lines, end + 1


def _closing_line(source: Source) -> int:
    if source.lines[0].strip() != "---":
        source.fail(1, "no front matter; the first line must be --- and another --- must end it")
    for index, text in enumerate(source.lines[1:], start=1):
        if text.rstrip() == "---":
            return index
    source.fail(1, "the front matter is never closed; end it with a line ---")


def _load(source: Source, text: str) -> YamlMapping:
    try:
        values = strict_yaml.parse(text, first_line=2, anchors=False)
    except strict_yaml.YamlError as error:
        source.fail(error.line, f"the front matter {error.reason}")
    if values is None:
        return YamlMapping(2)
    if not isinstance(values, YamlMapping):
        source.fail(2, "the front matter must be `key: value` lines, such as urgency: P3")
    return values


def _refuse(source: Source, values: YamlMapping, problem: ErrorDetails) -> None:
    where = tuple(problem["loc"])
    top = str(where[0]) if where else "front matter"
    advice = _ADVICE.get("missing" if problem["type"] == "missing" else top, problem["msg"])
    source.fail(strict_yaml.line_of(values, where, 1), f"{top} {advice}")


def _check(source: Source, values: YamlMapping, front: FrontMatter) -> None:
    for language in front.cues:
        if not LANGUAGE.fullmatch(language):
            source.fail(
                values["cues"].lines[language],
                f"cues: {language!r} is no language; use a code such as en, zh or es",
            )
    for timer in front.timers:
        if not _TIMER.fullmatch(timer):
            source.fail(
                values["timers"].lines[timer],
                f"timers: {timer!r} has no unit; end the name in _ms, _s, _min or _h",
            )
    if front.needs_human is False and front.urgency in ("P1", "P2"):
        source.fail(
            values.lines["needs_human"],
            f"{front.urgency} always fetches a person; remove needs_human: false",
        )
