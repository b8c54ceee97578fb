"""One SOP document: a scenario with its sentences per language, and how a file becomes one.

A document is refused as a whole when anything in it is wrong: a sentence that silently goes missing
from an emergency procedure is worse than a start that fails. What people cannot be asked to repeat
is inherited: a sentence keeps the condition that its shared phrase or its English twin has.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from callflow.call.record import Sentence, SopChunk
from callflow.errors import did_you_mean
from callflow.procedures.body import Bullet, read_body
from callflow.procedures.frontmatter import FrontMatter, read_front_matter
from callflow.procedures.source import Source

Section = Literal["ask", "say", "never", "escalate"]
SECTIONS: Final[tuple[Section, ...]] = ("ask", "say", "never", "escalate")
CALLERS: Final = "callers"
"""The heading of what callers say: never spoken, it is how the procedure is found."""
FALLBACK_LANGUAGE: Final = "en"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all documents have in common: phrases by (language, id), rules that always hold."""

    phrases: dict[tuple[str, str], Sentence] = field(default_factory=dict)
    never: dict[tuple[str, str], Sentence] = field(default_factory=dict)

    def ids(self) -> set[str]:
        """Return the ids of all shared phrases, whatever their language."""
        return {name for _, name in self.phrases}

    def condition(self, name: str) -> str | None:
        """Return the fact that a shared phrase waits for, in whichever language it is given."""
        return next((each.only_after for each in self._of(name) if each.only_after), None)

    def learns(self, name: str) -> str | None:
        """Return the fact that a shared question asks for, in whichever language it is given."""
        return next((each.learns for each in self._of(name) if each.learns), None)

    def until(self, name: str) -> str | None:
        """Return the fact that silences a shared phrase, in whichever language it is given."""
        return next((each.until for each in self._of(name) if each.until), None)

    def _of(self, name: str) -> list[Sentence]:
        return [known for (_, key), known in self.phrases.items() if key == name]


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

    def chunk(self, section: Section, language: str) -> SopChunk | None:
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


def parse_shared(path: Path, data: bytes, base: Shared) -> Shared:
    """Read a file of shared phrases and rules; what it gives replaces the same id in `base`.

    It has no front matter, and the sections Phrases and Never. Raises SopError.
    """
    source = Source.of(path, data)
    bullets, _ = read_body(source, 0, ("phrases", "never"))
    _refuse_duplicates(source, bullets)
    phrases, never = dict(base.phrases), dict(base.never)
    for bullet in bullets:
        if not bullet.id or not bullet.text:
            source.fail(bullet.line, "a shared sentence needs both: [id] and its text")
        after = bullet.after or base.condition(bullet.id)
        target = phrases if bullet.section == "phrases" else never
        target[(bullet.language, bullet.id)] = Sentence(
            id=bullet.id,
            text=bullet.text,
            only_after=after,
            forbids=bullet.forbids,
            learns=bullet.learns or base.learns(bullet.id),
            until=bullet.until or base.until(bullet.id),
        )
    return Shared(phrases, never)


def parse_document(path: Path, data: bytes, shared: Shared) -> SopDocument:
    """Read one scenario. Raises SopError with the line of the first thing that is wrong."""
    source = Source.of(path, data)
    front, key_lines, first = read_front_matter(source)
    found, languages = read_body(source, first, (*SECTIONS, CALLERS))
    examples = _examples(source, found)
    bullets = [bullet for bullet in found if bullet.section != CALLERS]
    bullets = [_named(source, bullet, shared) for bullet in _numbered(bullets)]
    _refuse_duplicates(source, bullets)
    bullets = _with_inherited_conditions(source, bullets, shared)
    _refuse_unknown_forbids(source, bullets, shared)
    _refuse_mute_languages(source, front, bullets, languages, key_lines)
    sections = _sections(bullets, languages, shared)
    return SopDocument(path, key_lines["id"], front, sections, examples)


def _examples(source: Source, bullets: list[Bullet]) -> dict[str, tuple[str, ...]]:
    """Take what callers say, by language. Nothing of it is spoken, so it has no id and waits for
    nothing."""
    found: dict[str, list[str]] = {}
    for bullet in bullets:
        if bullet.section == CALLERS:
            if bullet.id or not bullet.text:
                source.fail(bullet.line, "what a caller says has no [id]; write their words alone")
            found.setdefault(bullet.language, []).append(bullet.text)
    return {language: tuple(dict.fromkeys(texts)) for language, texts in found.items()}


def _numbered(bullets: list[Bullet]) -> list[Bullet]:
    """Give a bullet without an id the name of its place: `en_ask_3` is the third question.

    The language is part of it, for third sentences of two languages need not say the same.
    """
    counts: dict[tuple[str, str], int] = {}
    named = []
    for bullet in bullets:
        place = (bullet.language, bullet.section)
        counts[place] = counts.get(place, 0) + 1
        name = f"{bullet.language}_{bullet.section}_{counts[place]}"
        named.append(replace(bullet, id=bullet.id or name))
    return named


def _named(source: Source, bullet: Bullet, shared: Shared) -> Bullet:
    """Give a bullet that is an id alone the text of the shared phrase."""
    if bullet.text:
        return bullet
    phrase = shared.phrases.get((bullet.language, bullet.id))
    if phrase is None:
        ids = {name for language, name in shared.phrases if language == bullet.language}
        source.fail(
            bullet.line,
            f"[{bullet.id}] has no text and is no shared phrase in {bullet.language}"
            f"{did_you_mean(bullet.id, ids)}",
        )
    return replace(bullet, text=phrase.text)


def _refuse_duplicates(source: Source, bullets: list[Bullet]) -> None:
    first: dict[tuple[str, str], int] = {}
    for bullet in bullets:
        if (seen := first.setdefault((bullet.language, bullet.id), bullet.line)) != bullet.line:
            source.fail(
                bullet.line,
                f"[{bullet.id}] is given twice in ## {bullet.language} (first on line {seen}); "
                "give one of them another id",
            )


def _with_inherited_conditions(
    source: Source, bullets: list[Bullet], shared: Shared
) -> list[Bullet]:
    after: dict[str, str] = {}
    learns: dict[str, str] = {}
    until = {bullet.id: bullet.until for bullet in bullets if bullet.until}
    for bullet in bullets:
        if bullet.after and after.setdefault(bullet.id, bullet.after) != bullet.after:
            source.fail(
                bullet.line,
                f"[{bullet.id}] waits for {after[bullet.id]} in another language; use one fact",
            )
        if bullet.learns and learns.setdefault(bullet.id, bullet.learns) != bullet.learns:
            source.fail(
                bullet.line,
                f"[{bullet.id}] asks for {learns[bullet.id]} in another language; use one fact",
            )
    return [
        replace(
            bullet,
            after=bullet.after or after.get(bullet.id) or shared.condition(bullet.id),
            learns=bullet.learns or learns.get(bullet.id) or shared.learns(bullet.id),
            until=bullet.until or until.get(bullet.id) or shared.until(bullet.id),
        )
        for bullet in bullets
    ]


def _refuse_unknown_forbids(source: Source, bullets: list[Bullet], shared: Shared) -> None:
    known = {bullet.id for bullet in bullets} | shared.ids()
    for bullet in bullets:
        for name in bullet.forbids:
            if name not in known:
                source.fail(
                    bullet.line,
                    f"forbids: no sentence has the id {name!r}{did_you_mean(name, known)}",
                )


def _refuse_mute_languages(
    source: Source,
    front: FrontMatter,
    bullets: list[Bullet],
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
    bullets: list[Bullet], languages: dict[str, int], shared: Shared
) -> dict[tuple[str, Section], tuple[Sentence, ...]]:
    found: dict[tuple[str, Section], tuple[Sentence, ...]] = {}
    for language in languages:
        for section in SECTIONS:
            found[(language, section)] = tuple(
                Sentence(
                    id=bullet.id,
                    text=bullet.text,
                    only_after=bullet.after,
                    forbids=bullet.forbids,
                    learns=bullet.learns,
                    until=bullet.until,
                )
                for bullet in bullets
                if bullet.language == language and bullet.section == section
            )
    for (language, _), rule in shared.never.items():
        # The shared rules hold for every document, also for one that has no rule of its own.
        code = language if language in languages else next(iter(languages))
        found[(code, "never")] = (*found[(code, "never")], rule)
    return found
