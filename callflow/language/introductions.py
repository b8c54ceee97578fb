"""Names by which people introduce themselves, as they are written: in capitals, or in Chinese.

`places.name` reads the name of a caller who was asked for it, in any spelling. Here a name is found
though nobody asked: what is left in costs a caller their privacy, so it need not be a likely one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from callflow.language.lexicon import shipped
from callflow.language.text import hear, listed

PARTICLES: Final = frozenset(
    listed("van von der den de del della di da dos la las los el al bin y")
)
"""Small words within a name: by themselves they are nobody's."""
TITLES: Final = frozenset(
    listed("dr doctor doctora mr mrs ms miss prof professor sr sra srta señor señora señorita doña")
)
HAN_TITLES: Final = ("先生", "女士", "小姐", "太太", "师傅", "老师", "医生", "经理")

_MOST: Final = 4
_OPENING = re.compile(
    r"(?<!\w)(?:i am|i['’]?m|this is|(?:my )?name(?: is|['’]s)|call me|they call me|here is"
    r"|(?:yo )?soy|(?:me|se) llam[oa]|mi nombre es|(?:le )?habla|我是|我叫|我姓|"
    rf"(?:{'|'.join(sorted(TITLES, key=len, reverse=True))})\.?)(?!['’\w])[\s:]*",
    re.I,
)
_WORD = re.compile(r"[ \t]*([^\W\d_\u3400-\u9fff]+(?:['’-][^\W\d_\u3400-\u9fff]+)*)(\.?)")
_OPENING_HAN = re.compile(
    r"(?:我是|我叫|我姓|免贵姓|敝姓|名叫|名字是|名字叫)[\s:：]*([\u3400-\u9fff]+)"
)
_TWO_HAN: Final = frozenset(listed("欧阳 司马 上官 诸葛 东方 皇甫 尉迟 公孙 慕容 司徒 令狐"))
_SURNAMES: Final = frozenset(
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩冯邓曹彭曾肖田董潘袁蔡蒋余于杜叶程"
    "魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金韦贾夏付方邹熊白孟秦邱侯江尹薛阎段雷龙黎史陶贺毛郝顾"
    "龚邵万覃武钱戴严莫孔常"
    "張劉陳楊黃趙吳孫馬許韓馮鄧葉蘇呂盧鐘譚陸範賈鄒龍賀顧龔錢嚴羅鄭謝"
)
_NO_NAME = re.compile("高血压|高兴|高空|任何|白天|方便|常常|常客|马上|万一|严重|何时|金属|石头")
_THINGS: Final = frozenset(
    listed(
        "lift elevator tower building floor block house hotel hospital room car level street "
        "emergency security ascensor torre edificio piso planta bloque casa calle"
    )
)


def introduced(text: str) -> set[str]:
    """The names that follow "I am", "soy", "我是" and the like, or a title; of a Chinese one that
    runs into what follows, each length that it may have."""
    found = {name for one in _OPENING.finditer(text) if (name := _written(text, one.end()))}
    for one in _OPENING_HAN.finditer(text):
        found.update(_han(one[1]))
    return found


def introduced_in(record: Mapping[str, Any]) -> set[str]:
    """The same of what people have written about a call, or to be said in it."""
    noted = [one.get("text") for key in ("notes", "sayings") for one in record.get(key) or ()]
    urgency = record.get("urgency_set") or {}
    noted += [urgency.get("reason"), *(urgency.get("reasons") or ())]
    return {name for text in noted if text for name in introduced(str(text))}


def _written(text: str, place: int) -> str:
    """The capitalised words from `place` on, with the small words between them."""
    words: list[str] = []
    waiting: list[str] = []
    while len(words) - sum(word in PARTICLES for word in words) < _MOST:
        word = _WORD.match(text, place)
        if word is None:
            break
        plain = word[1].lower()
        if plain in TITLES and not words:
            place = word.end()
            continue
        if word[1][0].isupper() and not _is_common(plain):
            words += [*waiting, word[1]]
            waiting = []
        elif plain in PARTICLES and word[1].islower() and len(waiting) < 2:
            waiting.append(plain)
        else:
            break
        place = word.end(1)
        if text[place : place + 1] not in (" ", "\t"):
            break
    return " ".join(words)


def _is_common(word: str) -> bool:
    return word in _THINGS or shipped("names").find(hear(word)) != []


def _han(run: str) -> Iterator[str]:
    if _NO_NAME.match(run):
        return
    surname = 2 if run[:2] in _TWO_HAN else 1 if run[0] in _SURNAMES else 0
    if not surname:
        return
    for title in HAN_TITLES:
        if run.startswith(title, surname):
            yield run[:surname] + title
            return
    for length in (surname + 1, surname + 2):
        if length <= len(run):
            yield run[:length]
