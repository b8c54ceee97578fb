"""A caller who asks is answered in the same reply, and what they have told is told back."""

from __future__ import annotations

from tests.conversations import talk


def test_a_question_is_answered_before_the_next_one_is_asked() -> None:
    (_, _), (reply, _) = talk(["we are stuck in the lift", "can we sit down"])
    assert reply.startswith("Yes, please sit down")
    assert reply.endswith("?")


def test_how_long_is_answered_by_what_is_known() -> None:
    (reply, _), *_ = talk(["how long will it take we are stuck in the lift"])
    assert "I don't have an arrival time yet." in reply
    known = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True, "eta_minutes": 20}
    (reply, _), *_ = talk(["how long will it take we are stuck in the lift"], recorded=known)
    assert "20 minutes" in reply
    assert "I don't have an arrival time" not in reply


def test_a_procedure_s_own_answer_comes_first() -> None:
    (reply, _), *_ = talk(["there is smoke in here can we force the doors"])
    assert "They keep smoke out." in reply


def test_who_asks_the_same_again_hears_the_answer_and_no_question() -> None:
    replies = talk(["we are stuck in the lift", "has somebody been sent", "has anybody been sent"])
    (second, _), (third, _) = replies[1:]
    assert "I have no confirmation yet" in second
    assert "I have no confirmation yet" in third
    assert not third.endswith("?")


def test_no_answer_is_given_three_times_in_the_same_words() -> None:
    replies = [text for text, _ in talk(["we are stuck in the lift", *["has help been sent"] * 3])]
    assert ["I have no confirmation" in each for each in replies[1:]] == [True, True, False]
    assert "Still nothing confirmed." in replies[3]


def test_what_was_just_learned_is_told_back() -> None:
    (_, _), (reply, _) = talk(["we are stuck in the lift", "four of us and nobody is hurt"])
    assert reply.startswith("Nobody hurt, 4 people.")


def test_what_a_caller_did_not_understand_is_said_again_and_nothing_besides() -> None:
    (first, _), (second, _) = talk(["we are stuck in the lift", "sorry could you repeat that"])
    assert first.endswith(second)
    assert "automated assistant" not in second


def test_what_is_in_no_list_is_put_off_honestly() -> None:
    replies = talk(["we are stuck in the lift", "will the hotel give us our money back"])
    assert replies[1][0].startswith("I don't know that. I've noted your question")


def test_a_question_that_nothing_may_answer_is_not_met_with_silence() -> None:
    replies = talk(["this is a test call from the engineer", "what time will he get there"])
    assert all(text for text, _ in replies)


def test_one_agenda_asks_for_place_and_number_of_people_in_every_call() -> None:
    said = ["my husband has collapsed in the lift", "no he is not awake", "no", "hurry", "please"]
    asked = " ".join(text for text, _ in talk(said))
    assert "How many people are in the lift" in asked
    assert "Can you see a lift number or address" in asked


def test_a_call_that_ended_well_ends_with_a_goodbye() -> None:
    said = ["the doors opened and we all got out by ourselves", "yes all of us", "thanks bye"]
    assert talk(said)[-1][0] == "Thank you for calling. Goodbye."


def test_no_sentence_alternates_with_another_for_ever() -> None:
    replies = [text for text, _ in talk(["we are stuck in the lift", *["hmm okay then"] * 24])]
    for turn, reply in enumerate(replies[1:], start=1):
        assert reply not in replies[max(0, turn - 3) : turn], f"said again in turn {turn}: {reply}"


def test_in_chinese_and_spanish_too() -> None:
    (_, _), (reply, _) = talk(["我们被困在电梯里", "还要多久"], "zh")
    assert "到达时间还没有确认" in reply
    (_, _), (reply, _) = talk(["estamos encerrados en el ascensor", "se puede caer"], "es")
    assert "más seguro se espera" in reply


def test_an_answer_that_only_a_neighbour_forbids_is_given_where_there_is_no_other() -> None:
    said = ["me ahogo aquí dentro", "estoy sola", "me tiemblan las manos", "gracias cuánto falta"]
    *_, (reply, _) = talk(said, "es")
    assert "Todavía no tengo una hora" in reply or "hora de llegada" in reply


def test_a_question_with_words_misheard_is_answered_all_the_same() -> None:
    asked = (
        ("can't we sit down", "Yes, please sit down"),
        ("has some body been sent", "I have no confirmation yet"),
        ("are you sending a fire brigade", "no word from the fire service"),
    )
    for words, answer in asked:
        (_, _), (reply, _) = talk(["we are stuck in the lift", words])
        assert answer in reply, words
    (_, _), (reply, _) = talk(["我们被困在电梯里", "叫消防了嘛"], "zh")
    assert "消防" in reply


def test_help_for_a_body_is_answered_in_three_languages() -> None:
    asked = (
        ("en", "my father collapsed he's not breathing", "how do i do the heart massage"),
        ("es", "mi tío se ha desmayado y no respira", "cómo le hago el masaje"),
        ("zh", "我妈晕倒了没有呼吸", "心肺复苏怎么做"),
    )
    middle = ("middle of the chest", "centro del pecho", "胸口正中")
    for (language, first, question), answer in zip(asked, middle, strict=True):
        (_, _), (reply, _) = talk([first, question], language)
        assert answer in reply, language
