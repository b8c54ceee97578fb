"""Takes names and telephone numbers out of what was said, in all three languages.

What is taken out too much costs a reader a word; what is left in costs a caller their privacy. So
six digits in a row are a number, however they were said, and a name that was told once is one
wherever it stands: told to our question (`places.name`), or because people introduce themselves
with it, in capitals or in Chinese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from callflow.language.lexicon import load_lexicon
from callflow.language.numbers import digits_at
from callflow.language.places import name
from callflow.language.text import (
    is_han,
    listed,
    simplified,
    small_words,
    tokenize,
    without_accents,
)

NUMBER: Final = "[number]"
NAME: Final = "[name]"

_LEAST: Final = 6
"""Digits of a number. Floors, times and numbers of lifts have fewer."""
_LEAST_KNOWN: Final = 3
"""Digits of a part of a number that the call is known to hold."""

_TOKEN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3400-\u4dbf\u4e00-\u9fff]+")
_BETWEEN = re.compile(r"[\s.,;:、，。·…()\[\]/+\-–—]*")
_LINKS: Final = small_words("within a number")
_MOST_LINKS: Final = 3
_ASKED = re.compile(
    r"\bname\b|\bnombre\b|llama|who am i speaking|con quién|姓|名字|称呼|叫什么", re.I
)
"""Words of a question for a name: the answer may be the name alone."""

_PEOPLE_OF: Final = frozenset(("by", "who", "asked_by"))
_NAMES_OF: Final = _PEOPLE_OF | {"name"}
_NUMBERS_OF: Final = frozenset(("callback_number", "number", "telephone", "address"))
_OURS: Final = frozenset(
    listed(
        "assigned_worker at call_sid claim event id kind leg language line lift_id request ring "
        "retrieved_sop_chunks site sop_step teller timings versions chain worker scenario_type "
        "open_scenarios outcome call_state handling urgency hash before mac hurry role lang"
    )
)
"""Keys of what callflow itself has written: no words of people, and digits that are no numbers.
What people did may stand under the same key (`acts.urgency`): that is looked into."""
_OURS_WHOLE: Final = frozenset(("retrieved_sop_chunks", "versions", "timings", "chain"))
"""The same with all that is in them: procedures, models, hashes."""


@dataclass(frozen=True, slots=True)
class PrivateTerms:
    """What one call is known to hold that is private: names, and digits of telephone numbers."""

    names: frozenset[str] = frozenset()
    numbers: frozenset[str] = frozenset()


def digits_said(text: str) -> list[str]:
    """Return every row of digits in `text`, written or spoken, in the order of speech."""
    return ["".join(one.digits for one in run) for run in _runs(_tokens(text))]


def find_private_terms(record: Mapping[str, Any]) -> PrivateTerms:
    """Return the names and numbers of a call, by its record with `conversation_thread`."""
    facts = {**_mapping(record.get("facts")), **_mapping(record.get("recorded"))}
    names = {str(facts["name"])} if facts.get("name") else set()
    names |= {*_people(record), *introduced_in_record(record)}
    numbers = {_only_digits(str(facts.get("callback_number") or ""))}
    asked = False
    for entry in record.get("conversation_thread") or ():
        text = str(entry.get("text") or "")
        if entry.get("role") == "agent":
            asked = _ASKED.search(text) is not None
            continue
        found = name(tokenize(text), asked)
        if found is not None:
            names.add(found)
        names |= introduced_names(text)
        numbers |= {run for run in digits_said(text) if len(run) >= _LEAST}
        numbers.add(_only_digits(str(entry.get("digits") or "")))
    thread = [*(record.get("conversation_thread") or ())]
    for row in _keyed(thread):
        numbers.add("".join(_digits_of(thread[place]) for place in row))
    return PrivateTerms(frozenset(names), frozenset(one for one in numbers if len(one) >= _LEAST))


def _people(value: Any, key: str = "") -> Iterator[str]:
    """The names of people of ours, wherever the record says who did something."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from () if name in _OURS_WHOLE else _people(one, name)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _people(one, key)
    elif key in _PEOPLE_OF and isinstance(value, str) and len(value) > 1:
        yield value


def redact(value: Any, terms: PrivateTerms) -> Any:
    """Return `value` (as JSON has it) without names and telephone numbers, in every text but those
    that callflow itself has written. Numbers, flags and times stay."""
    if isinstance(value, str):
        return redact_text(value, terms)
    if isinstance(value, Mapping):
        return {key: _redact_at(key, one, terms) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [redact(one, terms) for one in value]
    return value


def _redact_at(key: str, value: Any, terms: PrivateTerms) -> Any:
    if value is None or key in _OURS_WHOLE:
        return value
    if key in _OURS:
        return _redact_own(value, terms)
    if key in _NAMES_OF:
        return NAME
    if key in _NUMBERS_OF:
        return NUMBER
    if key == "digits":
        return NUMBER if _is_number(str(value), terms) else value
    if key == "conversation_thread" and isinstance(value, list | tuple):
        return _redact_thread(value, terms)
    return redact(value, terms)


def _redact_own(value: Any, terms: PrivateTerms) -> Any:
    """What stands as it is under a key of ours; not what people did."""
    if isinstance(value, list | tuple):
        return [_redact_own(one, terms) for one in value]
    return redact(value, terms) if isinstance(value, Mapping) else value


def _redact_thread(thread: Sequence[Any], terms: PrivateTerms) -> list[Any]:
    """The same of what was said, where keys of one number may each be in a turn of their own."""
    shown: list[Any] = [redact(entry, terms) for entry in thread]
    # A number that was keyed at once is one by itself, and what follows it is another answer.
    short = {place for row in _keyed(thread) for place in row}
    short -= {place for place in short if len(_digits_of(thread[place])) >= _LEAST}
    for row in _keyed(thread, short):
        if sum(len(_digits_of(thread[place])) for place in row) >= _LEAST:
            for place in row:
                shown[place] = {**shown[place], "digits": NUMBER}
    return shown


def _keyed(thread: Sequence[Any], among: Container[int] | None = None) -> Iterator[list[int]]:
    """Places in a thread at which keys were pressed, one row after the other; `among` these alone.

    A relay tells of each key in a turn of its own. Replies and silence stand between them; words of
    the caller, and keys that are left out, end a row.
    """
    row: list[int] = []
    for place, entry in enumerate(thread):
        if entry.get("role") != "caller":
            continue
        if entry.get("digits") and (among is None or place in among):
            row.append(place)
        elif entry.get("digits") or str(entry.get("text") or "").strip():
            yield row
            row = []
    yield row


def _digits_of(entry: Mapping[str, Any]) -> str:
    return _only_digits(str(entry.get("digits") or ""))


def _is_number(keys: str, terms: PrivateTerms) -> bool:
    digits = _only_digits(keys)
    part = len(digits) >= _LEAST_KNOWN and any(digits in number for number in terms.numbers)
    return len(keys) >= _LEAST or part


def redact_text(text: str, terms: PrivateTerms) -> str:
    """Return `text` with `[number]` and `[name]` in place of them."""
    tokens = _tokens(text)
    cuts = [*_found_numbers(tokens, terms), *_found_names(tokens, terms)]
    cuts.sort(key=lambda cut: (cut[0], -cut[1]))  # In full, rather than word by word.
    parts, place = [], 0
    for start, end, word in cuts:
        if start >= place:
            parts += [text[place:start], word]
            place = end
    return "".join([*parts, text[place:]])


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a Chinese character: as it is compared, and where it stands."""

    word: str
    begin: int
    """`start`, or where a plus or a bracket before it is"""
    start: int
    end: int
    touches: bool
    """nothing but what may stand within a number is between it and the one before"""


@dataclass(frozen=True, slots=True)
class _Digits:
    """Digits that were said, and where."""

    digits: str
    begin: int
    end: int


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        touches = _BETWEEN.fullmatch(text, end, match.start()) is not None
        begin = end + len(text[end : match.start()].rstrip("+("))
        found.append(_Token(_folded(match[0]), begin, match.start(), match.end(), touches))
        end = match.end()
    return found


def _folded(word: str) -> str:
    return without_accents(word.lower()).translate(simplified())


def _runs(tokens: Sequence[_Token]) -> Iterator[list[_Digits]]:
    """Digits in a row, with a few words between them at most that people say within a number."""
    words = tuple(token.word for token in tokens)
    run: list[_Digits] = []
    place, links = 0, 0
    while place < len(tokens):
        digits, used = digits_at(words, place)
        if run and (not tokens[place].touches or (not used and links == _MOST_LINKS)):
            yield run
            run, links = [], 0
        if used:
            last = tokens[place + used - 1]
            run.append(_Digits(digits, tokens[place].begin, last.end))
            links = 0
        elif run and words[place] in _LINKS:
            links += 1
        elif run:
            yield run
            run, links = [], 0
        place += max(used, 1)
    if run:
        yield run


def _found_numbers(tokens: Sequence[_Token], terms: PrivateTerms) -> Iterator[tuple[int, int, str]]:
    for run in _runs(tokens):
        digits = "".join(one.digits for one in run)
        part = len(digits) >= _LEAST_KNOWN and any(digits in number for number in terms.numbers)
        if len(digits) >= _LEAST or part:
            yield run[0].begin, run[-1].end, NUMBER


def _found_names(tokens: Sequence[_Token], terms: PrivateTerms) -> Iterator[tuple[int, int, str]]:
    words = [token.word for token in tokens]
    for said in _spellings(terms.names):
        for place in range(len(words) - len(said) + 1):
            if words[place : place + len(said)] == said:
                yield tokens[place].start, tokens[place + len(said) - 1].end, NAME


def _spellings(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the ways to say a name again: in full, each word of it, the end of a Chinese one."""
    for one in names:
        words = [token.word for token in _tokens(one)]
        if not words:
            continue
        yield words
        if is_han(words[0]):
            if len(words) > 2 and not one.endswith(_HAN_TITLES):
                yield words[1:]
        else:
            yield from ([word] for word in words if len(word) > 1 and word not in _PARTICLES)


def _only_digits(text: str) -> str:
    return re.sub(r"\D", "", unicodedata.normalize("NFKC", text))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_PARTICLES: Final = small_words("name particles")
_TITLES: Final = small_words("titles")
_HAN_TITLES: Final = ("先生", "女士", "小姐", "太太", "师傅", "老师", "医生", "经理")

_MOST: Final = 4
_OPENING = re.compile(
    r"(?<!\w)(?:i am|i['’]?m|this is|(?:my )?name(?: is|['’]s)|call me|they call me|here is"
    r"|(?:yo )?soy|(?:me|se) llam[oa]|mi nombre es|(?:le )?habla|我是|我叫|我姓|"
    rf"(?:{'|'.join(sorted(_TITLES, key=len, reverse=True))})\.?)(?!['’\w])[\s:]*",
    re.I,
)
_WORD = re.compile(r"[ \t]*([^\W\d_\u3400-\u9fff]+(?:['’-][^\W\d_\u3400-\u9fff]+)*)(\.?)")
_OPENING_HAN = re.compile(
    r"(?:我是|我叫|我姓|免贵姓|敝姓|名叫|名字是|名字叫)[\s:：]*([\u3400-\u9fff]+)"
)
_TWO_HAN: Final = frozenset(listed("欧阳 司马 上官 诸葛 东方 皇甫 尉迟 公孙 慕容 司徒 令狐"))
_SURNAMES: Final = small_words("surnames")
_NO_NAME = re.compile("高血压|高兴|高空|任何|白天|方便|常常|常客|马上|万一|严重|何时|金属|石头")
_THINGS: Final = small_words("no names")


def introduced_names(text: str) -> set[str]:
    """The names that follow "I am", "soy", "我是" and the like, or a title; of a Chinese one that
    runs into what follows, each length that it may have."""
    found = {name for one in _OPENING.finditer(text) if (name := _written(text, one.end()))}
    for one in _OPENING_HAN.finditer(text):
        found.update(_han(one[1]))
    return found


def introduced_in_record(record: Mapping[str, Any]) -> set[str]:
    """The same of what people have written about a call, or to be said in it."""
    noted = [one.get("text") for key in ("notes", "sayings") for one in record.get(key) or ()]
    urgency = record.get("urgency_set") or {}
    noted += [urgency.get("reason"), *(urgency.get("reasons") or ())]
    return {name for text in noted if text for name in introduced_names(str(text))}


def _written(text: str, place: int) -> str:
    """The capitalised words from `place` on, with the small words between them."""
    words: list[str] = []
    waiting: list[str] = []
    while len(words) - sum(word in _PARTICLES for word in words) < _MOST:
        word = _WORD.match(text, place)
        if word is None:
            break
        plain = word[1].lower()
        if plain in _TITLES and not words:
            place = word.end()
            continue
        if word[1][0].isupper() and not _is_common(plain):
            words += [*waiting, word[1]]
            waiting = []
        elif plain in _PARTICLES and word[1].islower() and len(waiting) < 2:
            waiting.append(plain)
        else:
            break
        place = word.end(1)
        if text[place : place + 1] not in (" ", "\t"):
            break
    return " ".join(words)


def _is_common(word: str) -> bool:
    return word in _THINGS or bool(load_lexicon("names").find(tokenize(word)))


def _han(run: str) -> Iterator[str]:
    if _NO_NAME.match(run):
        return
    surname = 2 if run[:2] in _TWO_HAN else 1 if run[0] in _SURNAMES else 0
    if not surname:
        return
    for title in _HAN_TITLES:
        if run.startswith(title, surname):
            yield run[:surname] + title
            return
    for length in (surname + 1, surname + 2):
        if length <= len(run):
            yield run[:length]
