"""What a caller says is read by what was asked and who speaks, not as a new emergency each time."""

from __future__ import annotations

from callflow.language.danger import all_clear
from callflow.procedures.library import SopLibrary
from tests.conversations import talk

STUCK = "we are stuck in the lift"

PLAIN_OPENINGS = """
i'm trapped
we are trapped in here
help me please
it won't move
the elevator broke
hello i am in the elevator
can somebody get us out
me he quedado encerrada
ayuda por favor
el ascensor no va
estoy en el ascensor y no se mueve
我被困了
救命啊
电梯停了
门不开
我在电梯里面
"""

IN_MID_CALL = """
i'm so bored
are you a real person
what did you say
that's fine thanks
there is a poster on the wall
i am tired of standing
can i lean on the wall
we have been here before
hurry up please
puede decirlo otra vez
estoy cansada de esperar
hay un espejo
tengo hambre
我想坐下
你能听见吗
这里有镜子
我们还在等
"""

NOT_OUT = """
we have to get to work by nine
i have to take my pills at six
we got to the second floor and then it stopped
he came to see his grandmother and it got stuck
i managed to press the bell
they have to open it from outside
we walked to the back wall
we are out of water
我的手出来了可是门卡住了
"""


def lines(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


def test_few_plain_words_are_a_trapped_person() -> None:
    taken_otherwise = [
        f"{words}: {call.scenario_type} {call.urgency}"
        for words in lines(PLAIN_OPENINGS)
        for _, call in talk([words])
        if call.scenario_type not in (None, "entrapment_standard") or call.urgency == "P1"
    ]
    assert not taken_otherwise


def test_what_harms_nobody_moves_no_call() -> None:
    moved = [
        f"{words}: {call.open_scenarios} {call.urgency}"
        for words in lines(IN_MID_CALL)
        for _, call in talk([STUCK, words])[1:]
        if call.scenario_type != "entrapment_standard" or call.urgency != "P3"
    ]
    assert not moved


def test_a_danger_is_heard_in_mid_call_all_the_same() -> None:
    for words in ("there is smoke coming in", "my husband has collapsed", "进水了水很深"):
        (_, _), (_, call) = talk([STUCK, words])
        assert call.urgency == "P1", words


def test_nobody_is_out_by_a_word_that_only_sounds_like_it() -> None:
    calmed = [
        words
        for words in lines(NOT_OUT)
        for _, call in talk([STUCK, words])[1:]
        if call.urgency in ("P4", "P5") or call.facts.get("trapped") is False
    ]
    assert not calmed


def test_a_release_counts_once_it_is_confirmed() -> None:
    (_, _), (reply, told), (_, confirmed) = talk([STUCK, "we got out now", "yes everybody"])
    assert "Is everybody out?" in reply
    assert told.urgency == "P3"
    assert told.facts["trapped"] is True
    assert confirmed.urgency == "P4"
    assert confirmed.scenario_type == "self_released"


def test_a_release_that_is_not_confirmed_changes_nothing() -> None:
    *_, (_, call) = talk([STUCK, "we got out now", "no my son is still in there"])
    assert call.urgency == "P3"
    assert call.scenario_type == "entrapment_standard"


def test_no_words_of_any_procedure_are_an_all_clear() -> None:
    # Who reports a lift from outside may well know that nobody is in it.
    own = {"third_party_reporter"}
    wrong = [
        f"{name}: {phrase}"
        for name, document in SopLibrary.load().documents.items()
        if name not in own and document.front.urgency in ("P1", "P2", "P3")
        for phrases in (*document.front.cues.values(), *document.examples.values())
        for phrase in phrases
        if all_clear(phrase)
    ]
    assert not wrong


def test_who_denies_a_test_or_a_prank_is_trapped() -> None:
    for words in ("this is not a test i am stuck", "it's not a joke we are stuck in the lift"):
        ((_, call),) = talk([words])
        assert call.urgency not in ("P4", "P5"), words
    *_, (_, call) = talk(["haha is this the pizza place", "no seriously we are stuck in the lift"])
    assert call.urgency == "P3"


def test_no_human_voice_is_answered_with_nothing() -> None:
    spoken = (
        "the screen says fault code e five",
        "lift number four zero one seven two",
        "low battery on my phone",
        "automatic test call of lift seven",
        "电梯故障了",
        "código de fallo en la pantalla",
    )
    assert not [words for words in spoken for text, _ in talk([words]) if not text]


def test_danger_is_heard_in_languages_that_are_not_spoken_here() -> None:
    spoken = (
        "es brennt im aufzug",
        "c'è molto fumo qui",
        "il ne respire plus",
        "пожалуйста помогите он без сознания",
        "kalp krizi geçiriyor",
        "nie oddycha",
    )
    assert not [words for words in spoken for _, call in talk([words]) if call.urgency != "P1"]


def test_who_asks_for_a_person_is_neither_threatened_nor_playing() -> None:
    for words in ("get me a real person please", "quiero que me atienda una persona", "我要人工"):
        ((_, call),) = talk([words])
        assert call.urgency in (None, "P3"), words
        assert call.scenario_type in (None, "entrapment_standard"), words
    *_, (_, call) = talk(["put a person on", "i'm stuck and i don't want a machine"])
    assert (call.scenario_type, call.urgency) == ("entrapment_standard", "P3")


def test_who_is_to_be_told_is_not_in_the_lift() -> None:
    *_, (reply, call) = talk([STUCK, "just me", "can you tell my husband i will be late"])
    assert call.facts["people"] == 1
    assert "2 people" not in reply


def test_people_are_counted_where_nothing_else_is_said_of_them() -> None:
    for words in ("two people. how long will it take", "no smoke, two people"):
        *_, (_, call) = talk([STUCK, "not that i can see", words])
        assert call.facts.get("people") == 2, words
    *_, (_, call) = talk(["estamos encerrados", "estoy encerrada y sola"], "es")
    assert call.facts["people"] == 1


def test_a_test_stays_one_when_its_engineer_says_that_nobody_is_inside() -> None:
    said = ["soy el técnico, hago una prueba del teléfono", "no, no hay nadie dentro", "adiós"]
    *_, (_, call) = talk(said, "es")
    assert (call.scenario_type, call.urgency) == ("test_call_engineer", "P5")


def test_between_two_floors_is_no_floor() -> None:
    for words in ("stuck between two floors", "estamos entre dos plantas", "卡在两层楼中间"):
        ((_, call),) = talk([words])
        assert "floor" not in call.facts, words


def test_yes_we_are_inside_tells_of_no_injury() -> None:
    for language, words in (("en", "yes we're inside, four of us"), ("es", "sí, estamos dentro")):
        asked = {"en": "i am in the lift and it stopped", "es": "estoy en el ascensor, se paró"}
        (reply, _), (_, call) = talk([asked[language], words], language)
        assert "hurt" in reply or "herido" in reply
        assert "injured" not in call.facts, words
    *_, (_, call) = talk(["i am in the lift and it stopped", "yes i'm inside and i'm bleeding"])
    assert call.urgency == "P1"


def test_who_does_not_answer_through_the_door_may_be_unconscious() -> None:
    outside = {
        "en": ("i'm the porter, a woman is stuck in the lift here", "no", "yes they do"),
        "es": ("soy la vecina, hay un señor encerrado en el ascensor", "no, nada", "sí"),
        "zh": ("我是门卫，有人被困在电梯里", "没有", "有"),
    }
    for language, (report, silence, voice) in outside.items():
        (reply, call), (_, after) = talk([report, silence], language)
        assert call.scenario_type == "third_party_reporter", language
        assert after.urgency == "P1", (language, reply)
        *_, (_, after) = talk([report, voice], language)
        assert after.urgency != "P1", language
    *_, (_, after) = talk([outside["en"][0], "no i'm outside on the landing, i can hear him"])
    assert after.urgency != "P1"
