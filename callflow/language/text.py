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
from functools import lru_cache
from typing import Final

# A turn is seldom above 50 words. More is no evidence, only time.
MAX_CHARS: Final = 2_000
MARKS: Final = frozenset((",", "?"))


def listed(words: str) -> tuple[str, ...]:
    """Return the words of one string; lists of words are read more easily without quotes."""
    return tuple(words.split())


_APOSTROPHE = re.compile(r"[\u2019\u2018\u02bc\u0060\u00b4]")
_TOKEN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]|[^\W_\u3400-\u4dbf\u4e00-\u9fff]+|[,?+]")
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
# Only the traditional forms that stand in our lexicons.
_SIMPLIFIED = str.maketrans(
    "電們個裡裏沒嗎這說話號樓層門開關燈亮壓傷暈頭點著燒煙霧氣動發現來時間問題還車鐘兩後難過斷"
    "臟臉壞殺搶槍嚇邊幾幫請讓麼樣聽見覺總體臺灣國語漢華廣東會講們腳夾進淹漲滲噴濕電線聲響觸"
    "麼對錯醫藥產婦嬰兒歲輪誰維報剛從與並媽爺師檢測試誤報單鎖嘔護敗級應該勁鬆經離區場間練習",
    "电们个里里没吗这说话号楼层门开关灯亮压伤晕头点着烧烟雾气动发现来时间问题还车钟两后难过断"
    "脏脸坏杀抢枪吓边几帮请让么样听见觉总体台湾国语汉华广东会讲们脚夹进淹涨渗喷湿电线声响触"
    "么对错医药产妇婴儿岁轮谁维报刚从与并妈爷师检测试误报单锁呕护败级应该劲松经离区场间练习",
)


@dataclass(frozen=True, slots=True)
class Heard:
    """An utterance as tokens; `text` joins them by spaces, `at` is where each begins in it."""

    tokens: tuple[str, ...]
    text: str
    at: tuple[int, ...]


@lru_cache(maxsize=16)
def hear(text: str) -> Heard:
    """Return `text` as tokens. Never fails, whatever the text holds."""
    return heard_from(_settled(_split(_folded(text[:MAX_CHARS]))))


def heard_from(tokens: list[str] | tuple[str, ...]) -> Heard:
    """Return what has been heard from tokens that are in our form already."""
    at: list[int] = []
    place = 0
    for token in tokens:
        at.append(place)
        place += len(token) + 1
    return Heard(tuple(tokens), " ".join(tokens), tuple(at))


def has_words(text: str) -> bool:
    """True when anything was said that is no mark."""
    return any(token not in MARKS for token in hear(text).tokens)


def is_han(token: str) -> bool:
    """True when `token` begins with a Chinese character."""
    return _HAN.match(token) is not None


def _folded(text: str) -> str:
    text = _APOSTROPHE.sub("'", text).lower()
    if not text.isascii():
        text = unicodedata.normalize("NFKD", _QUESTION.sub("?", text).translate(_SIMPLIFIED))
        text = "".join(c for c in text if not unicodedata.combining(c)).lower()
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
        if token == before and (token in MARKS or token in _STAMMERED):
            continue
        if token in MARKS and not settled:
            continue
        if before == "no" and token == "one":
            settled[-1] = "nobody"
        else:
            settled.append(token)
    return settled


# Said twice by hesitation. Numbers are not among them.
_STAMMERED: Final = frozenset(
    listed(
        "i we he she they it the a an is are am was there in on of my and to you can not do "
        "have and me this that with el la los las un una hay es esta estamos de en que se me "
        "mi y a no somos estoy some water smoke fire please help"
    )
)
