"""The language of a caller follows what they speak, and what they ask for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.language.detect import asked_for, detect

DETECTED = [
    ("help we are stuck in the lift", "es", "en"),
    ("estoy atrapado en el ascensor", "en", "es"),
    ("hola me oye alguien por favor estamos atrapados", "en", "es"),
    ("no se abre la puerta", "en", "es"),
    ("我被困在电梯里了", "en", "zh"),
    ("我們被困在電梯裡", "es", "zh"),
    ("the doors will not open and there are two of us", "zh", "en"),
    ("hay dos personas conmigo", "zh", "es"),
    ("no", "es", "es"),
    ("sí claro", "en", "en"),
    ("救命", "en", "zh"),
    ("有烟", "es", "zh"),
    ("hay humo", "en", "es"),
    ("hay fuego", "zh", "es"),
    ("ayuda", "en", "es"),
    ("socorro", "zh", "es"),
    ("auxilio", "en", "es"),
    ("estamos atrapados", "en", "es"),
    ("fuego fuego fuego", "en", "es"),
    ("help", "es", "en"),
    ("fire", "zh", "en"),
    ("help help", "es", "en"),
    ("we are stuck", "es", "en"),
    ("si", "en", "en"),
    ("no", "zh", "zh"),
    ("ok", "zh", "zh"),
    ("three", "es", "es"),
    ("doce", "en", "en"),
    ("十二", "en", "en"),
    ("maria lopez", "en", "en"),
    ("john smith", "es", "es"),
    ("help ayuda", "zh", "zh"),
    ("yes two", "es", "es"),
    ("电梯 lift 卡住了", "zh", "zh"),
    ("i am in the 阳光 building on floor two", "en-GB", "en-GB"),
    ("calle mayor building the second floor", "en", "en"),
    ("we are stuck", "en-US", "en-US"),
    ("我们出不去了", "zh-CN", "zh-CN"),
    ("помогите мы застряли в лифте", "en", "en"),
    ("エレベーターに閉じ込められました", "en", "en"),
    ("", "es", "es"),
]
ASKED = [
    ("do you speak spanish", "es"),
    ("habla español por favor", "es"),
    ("can we do this in chinese", "zh"),
    ("is there someone who speaks mandarin", "zh"),
    ("spanish please", "es"),
    ("español", "es"),
    ("中文可以吗", "zh"),
    ("请说普通话", "zh"),
    ("我不会说英语", "zh"),
    ("能说西班牙语吗", "es"),
    ("換成英文", "en"),
    ("no hablo inglés", "es"),
    ("no entiendo inglés", "es"),
    ("puede hablar en inglés", "en"),
    ("english please", "en"),
    ("now English again please", "en"),
    ("back to english please", "en"),
    ("let's go back to english", "en"),
    ("english now", "en"),
    ("volvamos al español", "es"),
    ("otra vez en español", "es"),
    ("español de nuevo por favor", "es"),
    ("还是说中文吧", "zh"),
    ("换回英文", "en"),
    ("the chinese man is here now", None),
    ("we went back to the chinese restaurant", None),
    ("i only speak english", "en"),
    ("not in chinese in english please", "en"),
    ("i don't speak english spanish please", "es"),
    ("hablo solo chino", "zh"),
    ("there is a spanish man in here with me", None),
    ("the chinese restaurant is on the second floor", None),
    ("hay un chico inglés conmigo", None),
    ("do you speak french", None),
    ("can someone speak polish please", None),
    ("能说日语吗", None),
    ("we're stuck", None),
    ("", None),
]


def test_the_language_of_an_utterance_is_detected() -> None:
    wrong = [row for row in DETECTED if detect(row[0], row[1]) != row[2]]
    assert not wrong


def test_a_request_for_a_language_is_heard() -> None:
    wrong = [(text, asked_for(text)) for text, wanted in ASKED if asked_for(text) != wanted]
    assert not wrong


@given(st.text(), st.sampled_from(["en", "zh", "es", "en-GB", "zh-CN", ""]))
def test_any_text_has_a_language(text: str, current: str) -> None:
    assert detect(text, current) in {"en", "zh", "es", current}
    assert asked_for(text) in {"en", "zh", "es", None}
