"""Reads SOP files: front matter, headings and lists, as any Markdown editor shows them.

The front matter is YAML between two `---` lines. Below it `## en` opens a language, `### Ask` a
section, and each bullet is one sentence:

    - [calling_engineer] I've asked for an engineer. {after: dispatch.requested}

Below `### Answers` the id is a question of callers (`language/questions.py`), and what follows is
what is answered, or the `[id]` of a sentence that stands elsewhere in the file or is shared:

    - [may_climb] No, please don't climb out. The lift could move.
    - [how_long] [eta]
    - [how_long] [eta_unknown]

Of several answers to one question the first that may be said is given.

`{until: fact}` silences a sentence once that fact is known. `{learns: people}` says which fact a
question asks for: once that is known it is not asked. The id in brackets and the condition in
braces may both be left out; a bullet that is an id alone takes the text of the shared phrase of
that name. Notes for people stand above the first language or in `<!-- comments -->`; any other text
in a section is refused, for it would never be spoken.

A document is refused as a whole when anything in it is wrong (SopError: path, line, reason, way
out): a sentence that silently goes missing from an emergency procedure is worse than a start that
fails. What people cannot be asked to repeat is inherited: a sentence keeps the conditions that its
shared phrase or its English twin has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from pydantic import ValidationError

from callflow import strict_yaml
from callflow.call.facts import CALLER_FACTS
from callflow.call.record import Sentence
from callflow.errors import SopError, did_you_mean
from callflow.language.questions import QUESTIONS
from callflow.procedures.document import (
    ID,
    LANGUAGE,
    SECTIONS,
    FrontMatter,
    Section,
    Shared,
    SopDocument,
)
from callflow.strict_yaml import YamlMapping

# A procedure of a few pages is some 20 KB; a hundred times that is a wrong file.
MAX_FILE_BYTES: Final = 2_000_000
# Speech of this length takes half a minute; nobody in distress follows more in one go.
MAX_SENTENCE_CHARS: Final = 400
ANSWERS: Final = "answers"
CALLERS: Final = "callers"
"""The heading of what callers say: never spoken, it is how the procedure is found."""

# Facts that callflow itself sets; a near miss of one of them is a typing error.
KNOWN_FACTS: Final = (
    "human.alert_started",
    "dispatch.requested",
    "dispatch.confirmed_with_eta",
    "emergency.fire.requested",
    "emergency.ems.requested",
    "emergency.police.requested",
    "handover.started",
    "release.confirmed",
    "person.unconscious",
    "person.not_breathing",
)

CallerPhrases = dict[str, tuple[str, ...]]
"""What callers say, by language."""

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\ud800-\udfff\ufeff\ufffe\uffff]")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
_LIST_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,3}[.)])(?:\s+(.*))?")
_BRACKETED = re.compile(r"\[([^\]]*)\]\s*(.*)", re.DOTALL)
_REFERENCE = re.compile(r"\[([^\]]*)\]")
_FACT = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
_BRACES = re.compile(r"\{([^{}]*)\}")
_EMPHASIS = re.compile(r"\*\*|__|`")
_TIMER = re.compile(r"[a-z][a-z0-9_]*_(ms|s|min|h)")
_BULLET, _TEXT = 0, -1
"""What a line may be besides a heading of level 1 to 6."""

_CONDITIONS = {"after": "only_after", "forbids": "forbids", "learns": "learns", "until": "until"}
"""The field of a sentence that each condition sets."""
_CLASHES = {"only_after": "waits for", "learns": "asks for"}

_ONE_LINE = "must be one line of at most 200 characters"
_ADVICE = {
    "missing": "is missing; add it to the front matter",
    "id": "must be lower-case letters, digits and _, such as power_failure",
    "urgency": "must be P1, P2, P3, P4 or P5",
    "needs_human": "must be true or false",
    "silent": "must be true or false",
    "unsigned": "must list whose signature is missing, such as [clinician]",
    "cues": "must list phrases per language, such as en: [stuck, will not open]",
    "timers": "must be numbers of zero or more, such as human_ack_s: 30",
    **dict.fromkeys(("title", "version", "group"), _ONE_LINE),
}


def parse_document(path: Path, data: bytes, shared: Shared) -> SopDocument:
    """Read one scenario. Raises SopError with the line of the first thing that is wrong."""
    source = _Source.of(path, data)
    front, key_lines, first = _front_matter(source)
    found, languages = _read_body(source, first, (*SECTIONS, CALLERS))
    examples = _examples(source, found)
    bullets = [bullet for bullet in found if bullet.section != CALLERS]
    own = {(each.language, each.id): each.text for each in bullets if each.section != ANSWERS}
    bullets = list(_numbered(_read_answers(source, bullets)))
    bullets = [_with_text(source, bullet, shared, own) for bullet in bullets]
    _refuse_duplicates(source, bullets)
    bullets = _with_inherited_conditions(source, bullets, shared)
    _refuse_unknown_forbids(source, bullets, shared)
    _refuse_mute_languages(source, front, bullets, languages, key_lines)
    sections = _sections(bullets, languages, shared)
    return SopDocument(path, key_lines["id"], front, sections, examples)


def parse_shared(path: Path, data: bytes, base: Shared) -> Shared:
    """Read a file of shared phrases and rules; what it gives replaces the same id in `base`.

    It has no front matter, and the sections Phrases, Answers and Never; its answers to a question
    replace all of those in `base`. Raises SopError.
    """
    source = _Source.of(path, data)
    bullets, _ = _read_body(source, 0, ("phrases", ANSWERS, "never"))
    bullets = list(_read_answers(source, bullets))
    _refuse_duplicates(source, bullets)
    phrases, never = dict(base.phrases), dict(base.never)
    for bullet in bullets:
        if bullet.section == ANSWERS:
            continue
        if not bullet.id or not bullet.text:
            source.fail(bullet.line, "a shared sentence needs both: [id] and its text")
        target = phrases if bullet.section == "phrases" else never
        target[(bullet.language, bullet.id)] = _inheriting(bullet, {}, base).sentence()
    shared = Shared(phrases, never, dict(base.answers))
    answers: dict[str, list[Sentence]] = {}
    for bullet in bullets:
        if bullet.section == ANSWERS:
            full = _inheriting(_with_text(source, bullet, shared, {}), {}, shared)
            answers.setdefault(bullet.language, []).append(full.sentence())
    for language, lines in answers.items():
        given = {line.answers for line in lines}
        kept = (line for line in base.answers.get(language, ()) if line.answers not in given)
        shared.answers[language] = (*lines, *kept)
    return shared


def parse_callers(path: Path, data: bytes) -> CallerPhrases:
    """Read how callers put it: `## en` opens a language, each bullet below is one utterance.

    Raises SopError for a bullet above the first language, an unknown language, and text that is
    neither (below the first language).
    """
    source = _Source.of(path, data)
    languages: dict[str, int] = {}
    said: dict[str, list[str]] = {}
    for line, level, text in _blocks(source, 0):
        if level == 2:
            said[_language_heading(source, line, text, languages)] = []
        elif level == _BULLET and not said:
            source.fail(line, "an utterance needs a language above it; write ## en first")
        elif level == _BULLET:
            if not any(letter.isalnum() for letter in text):
                source.fail(line, "an utterance without a word; write what a caller says")
            said[next(reversed(said))].append(text)
        elif said:
            source.fail(line, "only ## languages and '- utterances' belong here")
    return {language: tuple(dict.fromkeys(texts)) for language, texts in said.items()}


@dataclass(frozen=True, slots=True)
class _Source:
    """The lines of one file (from 1 in every message, from 0 in `lines`)."""

    path: Path
    lines: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, data: bytes) -> _Source:
        """Decode one file. Raises SopError when it is empty, too large or not plain UTF-8 text."""
        if len(data) > MAX_FILE_BYTES:
            raise SopError(
                path, 1, f"the file is larger than {MAX_FILE_BYTES} bytes; is it the right one?"
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise SopError(path, line, "not UTF-8 text; save the file as UTF-8") from error
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        source = cls(path, tuple(text.split("\n")))
        if not text.strip():
            source.fail(1, "the file is empty; begin with --- and the front matter")
        for number, line_text in enumerate(source.lines, start=1):
            if found := _CONTROL.search(line_text):
                source.fail(number, f"control character U+{ord(found[0]):04X}; delete it")
        return source

    def fail(self, line: int, reason: str) -> NoReturn:
        """Refuse the file because of `line` (from 1; kept within the file)."""
        raise SopError(self.path, min(max(line, 1), len(self.lines)), reason)

    def without_comments(self, first: int) -> Iterator[tuple[int, str]]:
        """Yield (line number, text) from index `first` on, `<!-- … -->` blanked, not cut: every
        line still counts as in the operator's editor."""
        body = "\n".join(self.lines[first:])
        blanked = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), body).split("\n")
        for number, text in enumerate(blanked, start=first + 1):
            if "<!--" in text:
                self.fail(number, "a comment is never closed; end it with -->")
        yield from enumerate(blanked, start=first + 1)


def _front_matter(source: _Source) -> tuple[FrontMatter, dict[str, int], int]:
    """Return the front matter, the line of each top-level key and the index of the body's line."""
    if source.lines[0].strip() != "---":
        source.fail(1, "no front matter; the first line must be --- and another --- must end it")
    ends = (at for at, text in enumerate(source.lines) if at and text.rstrip() == "---")
    if not (end := next(ends, 0)):
        source.fail(1, "the front matter is never closed; end it with a line ---")
    values = _yaml(source, "\n".join(source.lines[1:end]))
    known = FrontMatter.model_fields
    for key in values:
        if key not in known:
            source.fail(values.lines[key], f"unknown key {key!r}{did_you_mean(key, known)}")
    try:
        front = FrontMatter.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        where = tuple(problem["loc"])
        top = str(where[0]) if where else "front matter"
        advice = _ADVICE.get("missing" if problem["type"] == "missing" else top, problem["msg"])
        source.fail(strict_yaml.line_of(values, where, 1), f"{top} {advice}")
    _check(source, values, front)
    return front, values.lines, end + 1


def _yaml(source: _Source, text: str) -> YamlMapping:
    try:
        values = strict_yaml.parse(text, first_line=2, anchors=False)
    except strict_yaml.YamlError as error:
        source.fail(error.line, f"the front matter {error.reason}")
    if values is None:
        return YamlMapping(2)
    if not isinstance(values, YamlMapping):
        source.fail(2, "the front matter must be `key: value` lines, such as urgency: P3")
    return values


def _check(source: _Source, values: YamlMapping, front: FrontMatter) -> None:
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


@dataclass(frozen=True, slots=True)
class _Bullet:
    """One sentence as the file has it, with the line it begins on (from 1).

    `id` and `text` are empty where the operator left them out; `conditions` are by the field of
    `Sentence` that they set. `question` is what an answer answers.
    """

    line: int
    language: str
    section: str
    id: str
    text: str
    conditions: dict[str, Any] = field(default_factory=dict)
    question: str | None = None

    def sentence(self) -> Sentence:
        """The same for a call."""
        return Sentence(id=self.id, text=self.text, answers=self.question, **self.conditions)


def _read_body(
    source: _Source, first: int, sections: Sequence[str]
) -> tuple[list[_Bullet], dict[str, int]]:
    """Return the bullets from line index `first` on, and the heading line of each language."""
    bullets: list[_Bullet] = []
    languages: dict[str, int] = {}
    language = section = ""
    for line, level, text in _blocks(source, first):
        if level == 2:
            language, section = _language_heading(source, line, text, languages), ""
        elif level == 3:
            if not language:
                source.fail(line, "a section needs a language above it; write ## en first")
            section = text.lower()
            if section not in sections:
                hint = did_you_mean(text, [name.title() for name in sections])
                source.fail(line, f"unknown section {text!r}{hint}")
        elif level == _BULLET and language:
            if not section:
                names = " or ".join(f"### {name.title()}" for name in sections)
                source.fail(line, f"a bullet outside of a section; write {names} above it")
            bullets.append(_parse_bullet(source, _Bullet(line, language, section, "", ""), text))
        elif section and level == _TEXT:
            source.fail(
                line,
                "text that is no bullet would never be said; begin it with '- ', or put notes "
                "above the first ## heading or in <!-- … -->",
            )
        elif section:
            source.fail(line, "a heading that opens nothing; write ## for a language, ### Ask …")
    return bullets, languages


def _blocks(source: _Source, first: int) -> Iterator[tuple[int, int, str]]:
    """Yield (line, level, text) of each heading, bullet (wrapped lines joined) and line of text."""
    open_bullet: tuple[int, list[str]] | None = None
    for line, raw in source.without_comments(first):
        heading = _HEADING.fullmatch(raw)
        bullet = _LIST_ITEM.fullmatch(raw)
        if open_bullet and (heading or bullet or not raw.strip()):
            yield open_bullet[0], _BULLET, " ".join(open_bullet[1])
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
            yield line, _TEXT, raw.strip()
    if open_bullet:
        yield open_bullet[0], _BULLET, " ".join(open_bullet[1])


def _language_heading(source: _Source, line: int, text: str, seen: dict[str, int]) -> str:
    """Return the code of a language that a heading opens, and note its line in `seen`."""
    code = text.lower()
    if not LANGUAGE.fullmatch(code):
        names = {"english": "en", "chinese": "zh", "spanish": "es", "中文": "zh", "español": "es"}
        hint = f"did you mean ## {names[code]}?" if code in names else "write ## en, ## zh, ## es"
        source.fail(line, f"unknown language {text!r}; {hint} (notes go above the first language)")
    if seen.setdefault(code, line) != line:
        source.fail(line, f"## {code} is given twice (first on line {seen[code]}); join them")
    return code


def _parse_bullet(source: _Source, bullet: _Bullet, text: str) -> _Bullet:
    """Read one bullet: `[id] text {condition: value}`, id or text may be missing."""
    name = ""
    if found := _BRACKETED.fullmatch(text):
        name, text = found[1].strip(), found[2]
        if not ID.fullmatch(name):
            source.fail(bullet.line, f"[{name}] is no id; use lower-case letters, digits and _")
    text, conditions = _split_conditions(source, bullet.line, text)
    for condition in conditions:
        for part in condition.split(";"):
            _add_condition(source, bullet, condition, part)
    text = " ".join(_EMPHASIS.sub("", text).split())
    if not text and not name:
        source.fail(bullet.line, "an empty bullet; write a sentence or the [id] of a shared phrase")
    if text and not any(character.isalnum() for character in text):
        source.fail(bullet.line, "a sentence without a word; write what should be said")
    if len(text) > MAX_SENTENCE_CHARS:
        source.fail(
            bullet.line,
            f"a sentence of {len(text)} characters; split it, at most {MAX_SENTENCE_CHARS} "
            "are spoken in one go",
        )
    return replace(bullet, id=name, text=text)


def _split_conditions(source: _Source, line: int, text: str) -> tuple[str, list[str]]:
    conditions: list[str] = []
    for found in _BRACES.finditer(text):
        inside = found[1].strip()
        if ID.fullmatch(found[1]):  # a value to be filled in, such as {eta_minutes}
            continue
        if _BRACES.sub("", text[found.end() :]).strip():
            source.fail(line, f"condition {{{inside}}} stands in mid-sentence; put it at the end")
        conditions.append(inside)
    plain = _BRACES.sub(lambda part: part[0] if ID.fullmatch(part[1]) else "", text)
    if "{" in _BRACES.sub("", plain) or "}" in _BRACES.sub("", plain):
        source.fail(line, "a brace without its partner; write {after: fact} or {forbids: id, id}")
    return plain, conditions


def _add_condition(source: _Source, bullet: _Bullet, condition: str, part: str) -> None:
    key, colon, value = (piece.strip() for piece in part.partition(":"))
    if not colon or not value:
        source.fail(
            bullet.line,
            f"unknown condition {{{condition}}}; write {{after: fact}}, {{learns: fact}} "
            "or {forbids: id, id}",
        )
    if key not in _CONDITIONS:
        hint = did_you_mean(key, list(_CONDITIONS))
        source.fail(bullet.line, f"unknown condition {key!r}{hint}")
    known = bullet.conditions
    if key == "forbids":
        known["forbids"] = (*known.get("forbids", ()), *_forbidden_ids(source, bullet, value))
        return
    for_questions = key == "learns"
    allowed = bullet.section in ("ask", "phrases") if for_questions else bullet.section != "never"
    if not allowed or _CONDITIONS[key] in known:
        place = "a question under ### Ask" if for_questions else "a sentence that is spoken"
        source.fail(bullet.line, f"{{{key}: …}} is for one fact, and for {place}")
    _refuse_unknown_fact(source, bullet.line, value, by_callers=for_questions)
    known[_CONDITIONS[key]] = value


def _refuse_unknown_fact(source: _Source, line: int, fact: str, *, by_callers: bool) -> None:
    """Refuse a fact that callers do not tell (`by_callers`), or that nobody could record."""
    if by_callers:
        if fact not in CALLER_FACTS:
            source.fail(line, f"callers tell no fact {fact!r}{did_you_mean(fact, CALLER_FACTS)}")
        return
    if not _FACT.fullmatch(fact):
        source.fail(line, f"{fact!r} is no fact; write one such as dispatch.requested")
    hint = did_you_mean(fact, KNOWN_FACTS)
    if fact not in KNOWN_FACTS and "mean" in hint:
        source.fail(line, f"unknown fact {fact!r}{hint}")


def _forbidden_ids(source: _Source, bullet: _Bullet, value: str) -> list[str]:
    if bullet.section != "never":
        source.fail(bullet.line, "{forbids: …} belongs to a bullet under ### Never")
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if not ID.fullmatch(name):
            source.fail(bullet.line, f"forbids: {name!r} is no id; write ids with commas between")
    return names


def _examples(source: _Source, bullets: Iterable[_Bullet]) -> CallerPhrases:
    """Take what callers say, by language. Nothing of it is spoken, so it has no id."""
    found: dict[str, list[str]] = {}
    for bullet in bullets:
        if bullet.section == CALLERS:
            if bullet.id or not bullet.text:
                source.fail(bullet.line, "what a caller says has no [id]; write their words alone")
            found.setdefault(bullet.language, []).append(bullet.text)
    return {language: tuple(dict.fromkeys(texts)) for language, texts in found.items()}


def _read_answers(source: _Source, bullets: Iterable[_Bullet]) -> Iterator[_Bullet]:
    """Give each answer the id of its sentence: that which it takes over, or one of its own."""
    counts: Counter[tuple[str, str]] = Counter()
    for bullet in bullets:
        if bullet.section != ANSWERS:
            yield bullet
            continue
        if bullet.id not in QUESTIONS:
            hint = did_you_mean(bullet.id, QUESTIONS)
            source.fail(bullet.line, f"callers ask no question {bullet.id!r}{hint}")
        if taken := _REFERENCE.fullmatch(bullet.text):
            yield replace(bullet, id=taken[1].strip(), text="", question=bullet.id)
            continue
        counts[bullet.language, bullet.id] += 1
        number = counts[bullet.language, bullet.id]
        name = f"answer_{bullet.id}" + (f"_{number}" if number > 1 else "")
        yield replace(bullet, id=name, question=bullet.id)


def _numbered(bullets: Iterable[_Bullet]) -> Iterator[_Bullet]:
    """Give a bullet without an id the name of its place: `en_ask_3` is the third question.

    The language is part of it, for third sentences of two languages need not say the same.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for bullet in bullets:
        place = (bullet.language, bullet.section)
        counts[place] += 1
        name = bullet.id or f"{bullet.language}_{bullet.section}_{counts[place]}"
        yield replace(bullet, id=name)


def _with_text(
    source: _Source, bullet: _Bullet, shared: Shared, own: Mapping[tuple[str, str], str]
) -> _Bullet:
    """Give a bullet that is an id alone the text of the shared phrase, and an answer that of the
    file's own sentence (`own`, by language and id)."""
    if bullet.text:
        return bullet
    place = (bullet.language, bullet.id)
    if bullet.section == ANSWERS and own.get(place):
        return replace(bullet, text=own[place])
    phrase = shared.phrases.get(place)
    if phrase is None:
        ids = {name for language, name in shared.phrases if language == bullet.language}
        source.fail(
            bullet.line,
            f"[{bullet.id}] has no text and is no shared phrase in {bullet.language}"
            f"{did_you_mean(bullet.id, ids)}",
        )
    return replace(bullet, text=phrase.text)


def _refuse_duplicates(source: _Source, bullets: Iterable[_Bullet]) -> None:
    first: dict[tuple[str, str], int] = {}
    for bullet in bullets:
        if bullet.section == ANSWERS:
            continue  # One sentence may answer several questions, and is said without one as well.
        if (seen := first.setdefault((bullet.language, bullet.id), bullet.line)) != bullet.line:
            source.fail(
                bullet.line,
                f"[{bullet.id}] is given twice in ## {bullet.language} (first on line {seen}); "
                "give one of them another id",
            )


def _with_inherited_conditions(
    source: _Source, bullets: Sequence[_Bullet], shared: Shared
) -> list[_Bullet]:
    given: dict[tuple[str, str], Any] = {}
    for bullet in bullets:
        for key, value in bullet.conditions.items():
            known = given.setdefault((bullet.id, key), value)
            if key in _CLASHES and known != value:
                source.fail(
                    bullet.line,
                    f"[{bullet.id}] {_CLASHES[key]} {known} in another language; use one fact",
                )
    return [_inheriting(bullet, given, shared) for bullet in bullets]


def _inheriting(bullet: _Bullet, given: dict[tuple[str, str], Any], shared: Shared) -> _Bullet:
    """Add what holds for the same id in another language, or for the shared phrase."""
    conditions = dict(bullet.conditions)
    for key in ("only_after", "learns", "until"):
        inherited = given.get((bullet.id, key)) or shared.condition(bullet.id, key)
        if inherited is not None:
            conditions.setdefault(key, inherited)
    return replace(bullet, conditions=conditions)


def _refuse_unknown_forbids(source: _Source, bullets: Iterable[_Bullet], shared: Shared) -> None:
    known = {bullet.id for bullet in bullets} | shared.ids()
    for bullet in bullets:
        for name in bullet.conditions.get("forbids", ()):
            if name not in known:
                source.fail(
                    bullet.line,
                    f"forbids: no sentence has the id {name!r}{did_you_mean(name, known)}",
                )


def _refuse_mute_languages(
    source: _Source,
    front: FrontMatter,
    bullets: Iterable[_Bullet],
    languages: dict[str, int],
    key_lines: dict[str, int],
) -> None:
    if not languages:
        source.fail(len(source.lines), "no language; write ## en and ### Ask with a list below")
    spoken = {bullet.language: bullet for bullet in bullets if bullet.section in ("ask", "say")}
    for language, line in languages.items():
        if front.silent and language in spoken:
            source.fail(spoken[language].line, "silent: true speaks nothing; remove Ask and Say")
        if not front.silent and language not in spoken:
            source.fail(line, f"## {language} has nothing to ask or say; fill ### Ask or ### Say")
    if front.silent and front.needs_human:
        source.fail(
            key_lines["needs_human"], "a silent call has nobody to connect; remove needs_human"
        )


def _sections(
    bullets: Sequence[_Bullet], languages: dict[str, int], shared: Shared
) -> dict[tuple[str, Section], tuple[Sentence, ...]]:
    found: dict[tuple[str, Section], tuple[Sentence, ...]] = {
        (language, section): tuple(
            bullet.sentence()
            for bullet in bullets
            if bullet.language == language and bullet.section == section
        )
        for language in languages
        for section in SECTIONS
    }
    for (language, _), rule in shared.never.items():
        # The shared rules hold for every document, also for one that has no rule of its own.
        code = language if language in languages else next(iter(languages))
        found[(code, "never")] = (*found[(code, "never")], rule)
    return found
