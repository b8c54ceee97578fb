"""What was hardly heard calms nothing down; what nobody said is no answer."""

from __future__ import annotations

import pytest

from callflow.call.record import CallRecord, ThreadEntry
from callflow.language.artefacts import made_of_silence, without_echo
from callflow.language.text import MARKS, tokenize
from callflow.procedures.library import SopLibrary
from callflow.responder.phrases import generic
from callflow.understand import Understanding
from tests.conversations import talk
from tests.engines import lexical
from tests.test_understand import call

STUCK = {
    "en": "we are stuck in the lift",
    "es": "estamos atrapados en el ascensor",
    "zh": "我们被困在电梯里",
}
LANGUAGES = sorted(STUCK)
MUMBLED = {"en": "the green one over by", "es": "la verde de por ahí", "zh": "那个绿的那边的"}
NO = {"en": "no", "es": "no", "zh": "没有"}
OUT = {
    "en": "it's okay we got out the doors opened and we're out",
    "es": "ya hemos salido todos estamos fuera",
    "zh": "我们都出来了没事了",
}
MISTAKE = {
    "en": "sorry I pressed it by mistake",
    "es": "perdón he pulsado sin querer",
    "zh": "不好意思按错了",
}
SMOKE = {"en": "there is smoke in here", "es": "hay humo aquí dentro", "zh": "这里面有烟"}


def asked(language: str, question: str, *answers: tuple[str, float | None]) -> CallRecord:
    """The call after these answers to `question` of the plain procedure, with no reply between."""
    opening = talk([STUCK[language]], language)[0][1]
    text = next(
        line.text
        for chunk in opening.retrieved_sop_chunks
        for line in chunk.sentences
        if line.id == question
    )
    known = {
        name: getattr(opening, name)
        for name in ("retrieved_sop_chunks", "open_scenarios", "scenario_type", "urgency")
    }
    found = call(("caller", STUCK[language]), ("agent", text), language=language, **known)
    for turn, (answer, confidence) in enumerate(answers, start=2):
        entry = ThreadEntry(role="caller", turn=turn, text=answer, at=0, confidence=confidence)
        thread = (*found.conversation_thread, entry)
        update = {"conversation_thread": thread, "heard": turn, "answered": turn - 1}
        found = found.model_copy(update=update)
        found = Understanding(lexical).analyse(found).applied_to(found)
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_doubtful_no_is_asked_once_more_and_believed_when_it_was_heard(language: str) -> None:
    sure = asked(language, "ask_injury", (NO[language], 0.9))
    assert sure.facts["injured"] is False
    doubtful = asked(language, "ask_injury", (NO[language], 0.4))
    assert "injured" not in doubtful.facts
    assert doubtful.analysis is not None
    assert doubtful.analysis.doubtful
    assert doubtful.analysis.confirm is not None
    assert doubtful.analysis.confirm.text == generic(language)["hurt_again"]
    assert asked(language, "ask_danger", (NO[language], 0.9)).facts["danger"] == []
    assert "danger" not in asked(language, "ask_danger", (NO[language], 0.4)).facts


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_second_answer_counts_and_the_question_is_not_put_a_third_time(language: str) -> None:
    for confidence, believed in ((0.9, True), (0.4, False)):
        first = asked(language, "ask_injury", (NO[language], 0.4))
        assert first.analysis is not None
        assert first.analysis.confirm is not None
        question = ThreadEntry(role="agent", turn=2, text=first.analysis.confirm.text, at=0)
        answer = ThreadEntry(role="caller", turn=3, text=NO[language], at=0, confidence=confidence)
        thread = (*first.conversation_thread, question, answer)
        then = first.model_copy(update={"conversation_thread": thread, "heard": 3, "answered": 2})
        then = Understanding(lexical).analyse(then).applied_to(then)
        assert (then.facts.get("injured") is False) is believed
        assert then.analysis is not None
        assert then.analysis.confirm is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_doubtful_all_clear_or_mistake_lowers_no_urgency(language: str) -> None:
    (_, before), (_, after) = talk([STUCK[language], OUT[language]], language, confidences=[1, 0.5])
    assert after.open_scenarios == before.open_scenarios
    assert after.urgency == before.urgency == "P3"
    assert after.facts.get("trapped") is not False
    assert talk([MISTAKE[language]], language, confidences=[0.9])[0][1].urgency == "P5"
    assert talk([MISTAKE[language]], language, confidences=[0.5])[0][1].urgency is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_danger_counts_however_badly_it_was_heard(language: str) -> None:
    assert talk([SMOKE[language]], language, confidences=[0.1])[0][1].urgency == "P1"


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_not_understood_is_asked_back_twice_in_a_row(language: str) -> None:
    words = [STUCK[language], *[MUMBLED[language]] * 3]
    replies = talk(words, language, confidences=[0.9, 0.4, 0.4, 0.4])
    phrases = generic(language)
    assert [text for text, _ in replies[1:3]] == [phrases["say_again"], phrases["say_slower"]]
    assert replies[3][0] not in phrases.values()
    unclear = [record.analysis.unclear for _, record in replies if record.analysis is not None]
    assert unclear == [0, 1, 2, 3]


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_was_well_heard_is_not_asked_back(language: str) -> None:
    (_, _), (reply, record) = talk([STUCK[language], MUMBLED[language]], language)
    assert generic(language)["say_again"] not in reply
    assert record.analysis is not None
    assert record.analysis.unclear == 0


MADE_OF_SILENCE = """
Thanks for watching!
you
Subtitles by the Amara.org community
¡Gracias por ver el vídeo!
Subtítulos por la comunidad de Amara.org
谢谢观看
字幕志愿者 李
"""
FAREWELLS = "okay thank you bye|gracias adiós|好的谢谢再见"
SAID = "thank you we are still stuck|thank you|yes thanks|vale gracias|谢谢你快一点"


def test_what_recognisers_write_in_silence_is_no_answer_and_no_goodbye() -> None:
    for words in [*MADE_OF_SILENCE.strip().splitlines(), *FAREWELLS.split("|")]:
        opening = talk([words])[0][1]
        assert opening.open_scenarios == ("silent_open_line",), words
        (_, before), (reply, after) = talk([STUCK["en"], words], confidences=[0.9, 0.5])
        assert after.open_scenarios == before.open_scenarios, words
        assert reply == generic(after.language)["say_again"], words
    for words in SAID.split("|"):
        assert not made_of_silence(words, doubtful=False), words


P1_QUESTIONS = [
    (name, language, line.text)
    for name, document in SopLibrary.load().documents.items()
    if document.front.urgency == "P1"
    for language in LANGUAGES
    for chunk in SopLibrary.load().chunks(name, language)
    if chunk.section == "ask"
    for line in chunk.sentences
]


def test_the_tail_of_a_question_of_ours_answers_nothing_and_opens_nothing() -> None:
    assert len(P1_QUESTIONS) > 50
    taken = []
    for name, language, question in P1_QUESTIONS:
        opening = talk([STUCK[language]], language)[0][1]
        known = {
            field: getattr(opening, field)
            for field in ("retrieved_sop_chunks", "open_scenarios", "scenario_type", "urgency")
        }
        words = [token for token in tokenize(question).tokens if token not in MARKS]
        tail = "".join(words[-6:]) if language == "zh" else " ".join(words[-4:])
        record = call(
            ("caller", STUCK[language]),
            ("agent", question),
            ("caller", tail),
            language=language,
            facts=opening.facts,
            **known,
        )
        found = Understanding(lexical).analyse(record)
        if len(words) < (6 if language == "zh" else 4):
            continue  # What a caller may say, too.
        if found.triage.open != opening.open_scenarios or found.facts != opening.facts:
            taken.append((name, tail, found.triage.open, found.facts))
    assert not taken


SPOKEN = "Is anyone hurt, or struggling to breathe?"
ECHOES = {
    "or struggling to breathe": "",
    "hurt or struggling to breathe nobody": "nobody",
    "he is struggling to breathe": "he is struggling to breathe",
    "no we are fine": "no we are fine",
}


def test_only_a_stretch_of_our_words_is_an_echo() -> None:
    assert {said: without_echo(said, SPOKEN) for said in ECHOES} == ECHOES
    assert without_echo("请不要靠近门", "请留在里面，请不要靠近门。") == ""
    assert without_echo("有没有烟", "有没有烟或者火？") == "有没有烟"


def test_who_says_yes_to_our_words_has_repeated_them() -> None:
    question = "Is there any smoke, fire or water where you are?"
    record = call(("caller", STUCK["en"]), ("agent", question), ("caller", "fire or water where"))
    assert Understanding(lexical).analyse(record).facts == {}
    words = "yes there is smoke fire or water where you are"
    record = call(("caller", STUCK["en"]), ("agent", question), ("caller", words))
    assert "smoke" in Understanding(lexical).analyse(record).facts["danger"]


NUMBERS = {
    "en": ("zero two zero", "seven nine four six", "triple oh one", "02079460001"),
    "es": ("seis uno dos", "treinta y cuatro cincuenta y seis", "siete ocho nueve", "6123456789"),
    "zh": ("一三八", "零零一三", "八零零零", "13800138000"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_number_that_is_given_in_parts_is_put_together(language: str) -> None:
    *parts, whole = NUMBERS[language]
    record = asked(language, "ask_callback", *((part, None) for part in parts))
    assert record.facts["callback_number"] == whole
    assert "people" not in record.facts
    first = asked(language, "ask_callback", (parts[0], None))
    assert first.analysis is not None
    assert first.analysis.asks_back == "go_on"
    assert "callback_number" not in first.facts


GUESSED = {
    "en": ("there's something wrong with my grandad he's gone all funny", "no he's fine actually"),
    "es": ("mi abuelo está muy raro", "no, está bien"),
    "zh": ("我爷爷有点不对劲", "没有，他没事"),
}


def test_a_danger_that_was_only_guessed_is_asked_about_and_a_clear_no_takes_it_back() -> None:
    tried = 0
    for language, (words, denied) in GUESSED.items():
        (reply, call), (_, after) = talk([words, denied], language)
        if call.urgency != "P1":
            continue  # It was not guessed in this language.
        tried += 1
        assert call.analysis is not None
        assert call.analysis.suspected == ("medical",), language
        assert call.analysis.confirm is not None
        assert reply.endswith(call.analysis.confirm.text)
        assert (after.urgency, after.scenario_type) == ("P3", "entrapment_standard"), language
        assert call.fetches_human is not None, "nobody was alerted"
    assert tried


def test_a_danger_that_was_named_is_not_taken_back_by_a_no() -> None:
    *_, (_, after) = talk(["there is thick smoke in here", "no"])
    assert after.urgency == "P1"
