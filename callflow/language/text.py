"""Brings speech into one form: short words without accents, one token for each Chinese character.

Recognition delivers contractions with or without their apostrophes, hesitations, words said twice,
and sometimes punctuation; a clause that it did hear ends with the token `,` (or `?`), which no cue
reaches over.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final

# A turn is seldom above 50 words. More is no evidence, only time.
MAX_CHARS: Final = 2_000
MARKS: Final = frozenset((",", "?"))


def listed(words: str) -> tuple[str, ...]:
    """Return the words of one string; lists of words are read more easily without quotes."""
    return tuple(words.split())


_APOSTROPHE = re.compile(r"[\u2019\u2018\u02bc\u0060\u00b4]")
_TOKEN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3400-\u4dbf\u4e00-\u9fff]+|[,?+]")
_BETWEEN_HAN = re.compile(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")
# A comma or point inside a number ends nothing.
_CLAUSE_END = re.compile(r"(?<!\d)[.,]|[.,](?!\d)|[;:!¡…，。；：！、\n]")
_QUESTION = re.compile(r"[?¿？]")

_FILLERS = frozenset(listed("um uh uhm er erm hmm hm mm ehm em eh ah 嗯 呃 啊 哎 唉 喔 哦"))
_ENDINGS = (
    ("n't", " not"), ("'re", " are"), ("'ve", " have"), ("'ll", " will"), ("'m", " am"),
    ("'d", " would"),
)  # fmt: skip
# "My wife's hurt" is "is"; a possessive loses nothing by it.
_ENDING_S = re.compile(r"(?<=[a-z])'s\b")
_SPELLED: Final = {
    "cant": "can not", "cannot": "can not", "dont": "do not", "doesnt": "does not",
    "didnt": "did not", "isnt": "is not", "arent": "are not", "wasnt": "was not",
    "werent": "were not", "wont": "will not", "wouldnt": "would not", "couldnt": "could not",
    "shouldnt": "should not", "havent": "have not", "hasnt": "has not", "hadnt": "had not",
    "aint": "is not", "im": "i am", "ive": "i have", "youre": "you are", "theyre": "they are",
    "weve": "we have", "theyve": "they have", "theres": "there is", "thats": "that is",
    "its": "it is", "hes": "he is", "shes": "she is", "whats": "what is", "wheres": "where is",
    "nobodys": "nobody is", "noones": "nobody is", "noone": "nobody", "somebodys": "somebody is",
    "someones": "someone is", "everyones": "everyone is", "everybodys": "everybody is",
    "gonna": "going to", "wanna": "want to", "gotta": "have to", "lets": "let us",
    "ca": "ca", "wo": "will",
}  # fmt: skip


def lexicon_lines(name: str) -> list[str]:
    """Return all lines of `lexicons/NAME.txt`, without comments and blanks around them."""
    path = files("callflow.language").joinpath("lexicons", f"{name}.txt")
    return [raw.split("#", 1)[0].strip() for raw in path.read_text(encoding="utf-8").splitlines()]


@cache
def _word_sets() -> dict[str, frozenset[str]]:
    sets: dict[str, frozenset[str]] = {}
    section = ""
    for line in lexicon_lines("small_words"):
        if line.startswith("["):
            section = line.strip("[]")
            sets[section] = frozenset()
        elif line:
            sets[section] |= set(listed(line))
    return sets


def small_words(section: str) -> frozenset[str]:
    """Return a set of words that rules look up: a section of `lexicons/small_words.txt`."""
    return _word_sets()[section]


@cache
def simplified() -> dict[int, str]:
    """Return the table that `str.translate` takes to write Chinese in simplified characters."""
    return {ord(pair[0]): pair[1] for line in lexicon_lines("traditional") for pair in line.split()}


@dataclass(frozen=True, slots=True)
class Tokens:
    """An utterance as tokens; `text` joins them by spaces, `at` is where each begins in it."""

    tokens: tuple[str, ...]
    text: str
    at: tuple[int, ...]


@lru_cache(maxsize=16)
def tokenize(text: str) -> Tokens:
    """Return `text` as tokens. Never fails, whatever the text holds."""
    return from_tokens(_settled(_split(_folded(text[:MAX_CHARS]))))


def from_tokens(tokens: list[str] | tuple[str, ...]) -> Tokens:
    """Return what has been heard from tokens that are in our form already."""
    at: list[int] = []
    place = 0
    for token in tokens:
        at.append(place)
        place += len(token) + 1
    return Tokens(tuple(tokens), " ".join(tokens), tuple(at))


def without_accents(text: str) -> str:
    """Return `text` without accents and variants of width."""
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", bare)  # Korean letters come apart, too.


def join_han(text: str) -> str:
    """Return `text` without the blanks that recognisers put between Chinese characters."""
    return _BETWEEN_HAN.sub("", text)


def has_words(text: str) -> bool:
    """True when anything was said that is no mark."""
    return any(token not in MARKS for token in tokenize(text).tokens)


def is_han(token: str) -> bool:
    """True when `token` begins with a Chinese character."""
    # Most tokens are Latin: the pattern need not look at them.
    return token[:1] > "\u2e7f" and _HAN.match(token) is not None


def _folded(text: str) -> str:
    text = _APOSTROPHE.sub("'", text).lower()
    if not text.isascii():
        text = without_accents(_QUESTION.sub("?", text).translate(simplified())).lower()
    if "'" in text:
        text = text.replace("won't", "will not").replace("can't", "can not")
        for ending, words in _ENDINGS:
            text = text.replace(ending, words)
        text = _ENDING_S.sub(" is", text).replace("let is", "let us").replace("'", "")
    return _QUESTION.sub(" ? ", _CLAUSE_END.sub(" , ", text))


def _split(text: str) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        if token in _SPELLED:
            yield from _SPELLED[token].split()
        elif token == "+":
            yield "plus"
        elif token not in _FILLERS:
            yield token


def _settled(tokens: Iterator[str]) -> list[str]:
    """Leave out words said twice, but no Chinese characters and nothing that may be a number."""
    settled: list[str] = []
    for token in tokens:
        before = settled[-1] if settled else ","
        if token == before and (token in MARKS or token in _SAID_TWICE):
            continue
        if token in MARKS and not settled:
            continue
        if before == "no" and token == "one":
            settled[-1] = "nobody"
        else:
            settled.append(token)
    return settled


# By hesitation; numbers are not among them.
_SAID_TWICE: Final = small_words("said twice")
