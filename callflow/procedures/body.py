"""The body of an SOP file: headings and lists, as any Markdown editor shows them.

`## en` opens a language, `### Ask` a section, each bullet below is one sentence:

    - [calling_engineer] I've asked for an engineer. {after: dispatch.requested}

`{until: fact}` silences a sentence once that fact is known. `{learns: people}` says which fact a
question asks for: once that is known it is not asked. The id
in brackets and the condition in braces may both be left out; a bullet that is an id alone
takes the text of the shared phrase of that name. Notes for people stand above the first language
or in `<!-- comments -->`; any other text in a section is refused, for it would never be spoken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from callflow.call.facts import CALLER_FACTS
from callflow.errors import did_you_mean
from callflow.procedures.frontmatter import LANGUAGE
from callflow.procedures.source import Source

# Speech of this length takes half a minute; nobody in distress follows more in one go.
MAX_SENTENCE_CHARS = 400

# Facts that callflow itself sets; a near miss of one of them is a typing error.
KNOWN_FACTS = (
    "human.alert_started",
    "dispatch.requested",
    "dispatch.confirmed_with_eta",
    "emergency.fire.requested",
    "emergency.ems.requested",
    "emergency.police.requested",
    "handover.started",
    "release.confirmed",
)

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_BULLET = re.compile(r"(\s*)(?:[-*+]|\d{1,3}[.)])(?:\s+(.*))?")
_ID = re.compile(r"\[([^\]]*)\]\s*(.*)", re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FACT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_BRACES = re.compile(r"\{([^{}]*)\}")
_EMPHASIS = re.compile(r"\*\*|__|`")
_CONDITIONS = ("after", "forbids", "learns", "until")
BULLET, TEXT = 0, -1
"""What a line may be besides a heading of level 1 to 6."""


@dataclass(frozen=True, slots=True)
class Bullet:
    """One sentence as the file has it, with the line it begins on (from 1).

    `id` and `text` are empty where the operator left them out. `at` holds the line of the
    language's heading, for complaints about the language as a whole.
    """

    line: int
    language: str
    section: str
    id: str
    text: str
    after: str | None = None
    forbids: tuple[str, ...] = ()
    learns: str | None = None
    until: str | None = None


def read_body(
    source: Source, first: int, sections: tuple[str, ...]
) -> tuple[list[Bullet], dict[str, int]]:
    """Return the bullets from line index `first` on, and the heading line of each language.

    `sections` are the allowed section names in lower case. Raises SopError for an unknown heading,
    a bullet outside a section, text in a section that is no bullet, and every sentence that
    `parse_bullet` refuses.
    """
    bullets: list[Bullet] = []
    languages: dict[str, int] = {}
    language = section = ""
    for line, level, text in blocks(source, first):
        if level == 2:
            language, section = language_heading(source, line, text, languages), ""
            languages[language] = line
        elif level == 3:
            if not language:
                source.fail(line, "a section needs a language above it; write ## en first")
            section = _section(source, line, text, sections)
        elif level == BULLET and language:
            if not section:
                names = " or ".join(f"### {name.title()}" for name in sections)
                source.fail(line, f"a bullet outside of a section; write {names} above it")
            bullets.append(parse_bullet(source, line, language, section, text))
        elif section and level == TEXT:
            source.fail(
                line,
                "text that is no bullet would never be said; begin it with '- ', or put notes "
                "above the first ## heading or in <!-- … -->",
            )
        elif section:
            source.fail(line, "a heading that opens nothing; write ## for a language, ### Ask …")
    return bullets, languages


def blocks(source: Source, first: int) -> Iterator[tuple[int, int, str]]:
    """Yield (line, level, text) of each heading, bullet (wrapped lines joined) and line of text."""
    open_bullet: tuple[int, list[str]] | None = None
    for line, raw in source.without_comments(first):
        heading = _HEADING.fullmatch(raw)
        bullet = _BULLET.fullmatch(raw)
        if open_bullet and (heading or bullet or not raw.strip()):
            yield open_bullet[0], BULLET, " ".join(open_bullet[1])
            open_bullet = None
        if heading:
            yield line, len(heading[1]), heading[2]
        elif bullet:
            if len(bullet[1].expandtabs(4)) > 3:
                source.fail(line, "a list inside a list; write one bullet for each sentence")
            open_bullet = (line, [(bullet[2] or "").strip()])
        elif open_bullet:
            open_bullet[1].append(raw.strip())
        elif raw.strip():
            yield line, TEXT, raw.strip()
    if open_bullet:
        yield open_bullet[0], BULLET, " ".join(open_bullet[1])


def language_heading(source: Source, line: int, text: str, seen: dict[str, int]) -> str:
    code = text.lower()
    if not LANGUAGE.fullmatch(code):
        names = {"english": "en", "chinese": "zh", "spanish": "es", "中文": "zh", "español": "es"}
        hint = f"did you mean ## {names[code]}?" if code in names else "write ## en, ## zh, ## es"
        source.fail(line, f"unknown language {text!r}; {hint} (notes go above the first language)")
    if code in seen:
        source.fail(line, f"## {code} is given twice (first on line {seen[code]}); join them")
    return code


def _section(source: Source, line: int, text: str, sections: tuple[str, ...]) -> str:
    name = text.lower()
    if name not in sections:
        titles = [section.title() for section in sections]
        source.fail(line, f"unknown section {text!r}{did_you_mean(text, titles)}")
    return name


def parse_bullet(source: Source, line: int, language: str, section: str, text: str) -> Bullet:
    """Read one bullet: `[id] text {condition: value}`, each part optional but one of id and text.

    Raises SopError for an empty bullet, a malformed id or condition, and a sentence that is longer
    than `MAX_SENTENCE_CHARS`.
    """
    name = ""
    if found := _ID.fullmatch(text):
        name, text = found[1].strip(), found[2]
        if not _NAME.fullmatch(name):
            source.fail(line, f"[{name}] is no id; use lower-case letters, digits and _")
    bullet = Bullet(line, language, section, name, "")
    text, conditions = _split_conditions(source, line, text)
    for condition in conditions:
        bullet = _with_condition(source, bullet, condition)
    text = " ".join(_EMPHASIS.sub("", text).split())
    if not text and not name:
        source.fail(line, "an empty bullet; write a sentence or the [id] of a shared phrase")
    if text and not any(character.isalnum() for character in text):
        source.fail(line, "a sentence without a word; write what should be said")
    if len(text) > MAX_SENTENCE_CHARS:
        source.fail(
            line,
            f"a sentence of {len(text)} characters; split it, at most {MAX_SENTENCE_CHARS} "
            "are spoken in one go",
        )
    return replace(bullet, text=text)


def _split_conditions(source: Source, line: int, text: str) -> tuple[str, list[str]]:
    conditions: list[str] = []
    for found in _BRACES.finditer(text):
        inside = found[1].strip()
        if _NAME.fullmatch(found[1]):  # a value to be filled in, such as {eta_minutes}
            continue
        rest = _BRACES.sub("", text[found.end() :]).strip()
        if rest:
            source.fail(line, f"condition {{{inside}}} stands in mid-sentence; put it at the end")
        conditions.append(inside)
    plain = _BRACES.sub(lambda part: part[0] if _NAME.fullmatch(part[1]) else "", text)
    if "{" in _BRACES.sub("", plain) or "}" in _BRACES.sub("", plain):
        source.fail(line, "a brace without its partner; write {after: fact} or {forbids: id, id}")
    return plain, conditions


def _with_condition(source: Source, bullet: Bullet, condition: str) -> Bullet:
    for part in condition.split(";"):
        key, colon, value = (piece.strip() for piece in part.partition(":"))
        if not colon or not value:
            source.fail(
                bullet.line,
                f"unknown condition {{{condition}}}; write {{after: fact}}, {{learns: fact}} "
                "or {forbids: id, id}",
            )
        if key not in _CONDITIONS:
            source.fail(bullet.line, f"unknown condition {key!r}{did_you_mean(key, _CONDITIONS)}")
        match key:
            case "after":
                bullet = _after(source, bullet, value)
            case "learns":
                bullet = _learns(source, bullet, value)
            case "until":
                bullet = _until(source, bullet, value)
            case _:
                bullet = _forbids(source, bullet, value)
    return bullet


def _after(source: Source, bullet: Bullet, fact: str) -> Bullet:
    if bullet.section == "never" or bullet.after:
        source.fail(bullet.line, "{after: …} is for one fact, and for a sentence that is spoken")
    return replace(bullet, after=_fact(source, bullet, fact))


def _until(source: Source, bullet: Bullet, fact: str) -> Bullet:
    if bullet.section == "never" or bullet.until:
        source.fail(bullet.line, "{until: …} is for one fact, and for a sentence that is spoken")
    return replace(bullet, until=_fact(source, bullet, fact))


def _fact(source: Source, bullet: Bullet, fact: str) -> str:
    if not _FACT.fullmatch(fact):
        source.fail(bullet.line, f"{fact!r} is no fact; write one such as dispatch.requested")
    hint = did_you_mean(fact, KNOWN_FACTS)
    if fact not in KNOWN_FACTS and "mean" in hint:
        source.fail(bullet.line, f"unknown fact {fact!r}{hint}")
    return fact


def _learns(source: Source, bullet: Bullet, fact: str) -> Bullet:
    if bullet.section not in ("ask", "phrases") or bullet.learns:
        source.fail(bullet.line, "{learns: …} is for one fact, and for a question under ### Ask")
    if fact not in CALLER_FACTS:
        source.fail(
            bullet.line,
            f"callers tell no fact {fact!r}{did_you_mean(fact, CALLER_FACTS)}",
        )
    return replace(bullet, learns=fact)


def _forbids(source: Source, bullet: Bullet, value: str) -> Bullet:
    if bullet.section != "never":
        source.fail(bullet.line, "{forbids: …} belongs to a bullet under ### Never")
    names = tuple(name.strip() for name in value.split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            source.fail(bullet.line, f"forbids: {name!r} is no id; write ids with commas between")
    return replace(bullet, forbids=(*bullet.forbids, *names))
