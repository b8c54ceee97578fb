"""Callers with seldom needs are answered from the procedure for it, and not comforted wrongly."""

from __future__ import annotations

from callflow.procedures.library import SopLibrary
from tests.conversations import talk
from tests.stories.test_calls_are_understood_in_context import STUCK

LIBRARY = SopLibrary.load()

CALLS = {
    "open_shaft": (
        "the doors opened and there was no elevator just a deep hole",
        "la puerta se abrió y no estaba la cabina, solo el hueco",
        "电梯门开了里面没有轿厢是个大洞",
    ),
    "unintended_movement": (
        "the lift went up with the doors still open while i stepped out",
        "el ascensor se movió con las puertas abiertas cuando salía",
        "我出来的时候电梯开着门就往上走了",
    ),
    "self_harm": (
        "i want to kill myself please leave me alone",
        "no quiero vivir más me quiero matar",
        "我不想活了我想自杀",
    ),
    "labour": (
        "my wife is in labour and the baby's coming",
        "mi mujer está de parto y ya viene el bebé",
        "我老婆要生了能看见孩子的头",
    ),
    "gas_or_spray": (
        "there is a strong smell of gas in the lift",
        "huele a gas muy fuerte aquí dentro",
        "电梯里煤气味很重",
    ),
    "bomb_threat": (
        "somebody says there's a bomb in the building",
        "dicen que hay una bomba en el edificio",
        "有人说楼里有炸弹",
    ),
    "overload": (
        "it says overload and it will not go we are too many",
        "pone sobrecarga y no arranca somos demasiados",
        "电梯显示超载人太多了走不了",
    ),
    "long_wait": (
        "we have been in here for hours with no water and it's so hot",
        "llevamos horas encerrados sin agua y con mucha sed",
        "我们困了好几个小时又热又渴",
    ),
    "refuge_point": (
        "i am at the refuge point and i can't get down the stairs in my wheelchair",
        "estoy en el punto de refugio y no puedo bajar las escaleras",
        "我在避难点坐轮椅下不了楼梯",
    ),
    "platform_lift": (
        "the stairlift has stopped and my mother is sitting on it",
        "el salvaescaleras se ha parado con mi madre encima",
        "楼梯升降椅停了我妈还坐在上面",
    ),
    "animal": (
        "my dog is alone in the lift and it went up without me",
        "mi perro se ha quedado solo en el ascensor",
        "我家小狗自己被关在电梯里了",
    ),
    "blind_caller": (
        "i am blind and i can't find the panel in this lift",
        "soy ciega y estoy encerrada en el ascensor con mi perro guía",
        "我是盲人带着导盲犬困在电梯里",
    ),
}
LANGUAGES = ("en", "es", "zh")

NO_COMFORT = ("open_shaft", "gas_or_spray", "bomb_threat", "refuge_point", "platform_lift")
"""Where nobody may hear that inside is best, or that air comes in."""


def test_each_is_found_with_its_urgency_in_three_languages() -> None:
    taken_otherwise = [
        f"{name}: {words}: {call.scenario_type} {call.urgency}"
        for name, calls in CALLS.items()
        for language, words in zip(LANGUAGES, calls, strict=True)
        for _, call in talk([words], language)
        if call.scenario_type != name or call.urgency != LIBRARY.document(name).front.urgency
    ]
    assert not taken_otherwise


def test_nobody_is_comforted_where_it_is_not_true() -> None:
    comforts = [
        line.text
        for (_, name), line in LIBRARY.shared.phrases.items()
        if name in ("safest_inside", "air_ok", "exit_only_level", "door_open_once")
    ]
    then = {
        "en": ("is it safe", "can we breathe in here", "what should i do now", "okay"),
        "es": ("es seguro", "hay aire", "qué hago ahora", "vale"),
        "zh": ("安全吗", "有空气吗", "现在怎么办", "好的"),
    }
    said = [
        f"{name}: {reply}"
        for name in NO_COMFORT
        for language, words in zip(LANGUAGES, CALLS[name], strict=True)
        for reply, _ in talk([words, *then[language]], language)
        for comfort in comforts
        if comfort in reply
    ]
    assert not said


def test_a_word_that_sounds_like_it_moves_no_plain_call() -> None:
    harmless = ("my dog is fine", "i could murder a coffee", "there are four of us", "我有点渴")
    moved = [
        f"{words}: {call.open_scenarios}"
        for words in harmless
        for _, call in talk([STUCK, words])[1:]
        if set(call.open_scenarios) & set(CALLS)
    ]
    assert not moved
