"""A sentence is spoken once it is complete, and no dot in a number or a title ends it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.procedures.library import SopLibrary
from callflow.responder.sentences import (
    asks,
    contains,
    first_end,
    leads_on,
    plain,
    refers_back,
    split,
)

DIVIDED = [
    ("Stay calm. Are you hurt?", ["Stay calm.", "Are you hurt?"]),
    ("Mr. Smith is on floor 3.5 now. Good.", ["Mr. Smith is on floor 3.5 now.", "Good."]),
    ("Use e.g. the handrail. Sit down.", ["Use e.g. the handrail.", "Sit down."]),
    ("It is lift no. 7. Yes?", ["It is lift no. 7.", "Yes?"]),
    ("No. Please stay.", ["No.", "Please stay."]),
    ("Well... stay where you are.", ["Well... stay where you are."]),
    ("Wait… Is that smoke?", ["Wait…", "Is that smoke?"]),
    ('I said "stay." Then wait.', ['I said "stay."', "Then wait."]),
    ("What?! Sit down!", ["What?!", "Sit down!"]),
    ("请留在电梯里。您受伤了吗？", ["请留在电梯里。", "您受伤了吗？"]),
    ("他说“别动。”请等一下！", ["他说“别动。”", "请等一下！"]),
    ("¿Está bien?¡Espere!", ["¿Está bien?", "¡Espere!"]),
    ("El Sr. Paz y Ud. esperen. Gracias.", ["El Sr. Paz y Ud. esperen.", "Gracias."]),
    ("Planta núm. 4. ¿Hay luz?", ["Planta núm. 4.", "¿Hay luz?"]),
    ("1. Stay inside. 2. Wait.", ["1. Stay inside.", "2. Wait."]),
    ("Without an end", ["Without an end"]),
    ("", []),
]


def test_a_text_falls_into_its_sentences() -> None:
    assert [(text, split(text)) for text, _ in DIVIDED] == DIVIDED


def test_an_end_that_may_not_be_one_is_waited_for_and_no_other() -> None:
    unsure = ["It is 3.", "Wait", "Mr. ", "At 5 p.m. ", "Really?", "So... "]
    assert [text for text in unsure if first_end(text) is not None] == []
    sure = ["It is 3. Y", "请等一下。", "Really? ", "Stop![stay_inside]"]
    assert [text for text in sure if first_end(text) is None] == []


@given(st.text(alphabet="ab .?!…Mr12“”", max_size=40), st.integers(0, 40))
def test_more_text_never_moves_an_end_that_was_found(text: str, cut: int) -> None:
    end = first_end(text[:cut])
    assert end is None or first_end(text) == end


@given(st.text(alphabet="ab .?!。…Mr12“”\n", max_size=60))
def test_splitting_loses_nothing_but_space(text: str) -> None:
    assert "".join("".join(split(text)).split()) == "".join(text.split())


QUESTIONS = ["Are you hurt?", "您受伤了吗？", "有人受伤吗", "Is it “stuck”?”"]
INSTRUCTIONS = [
    "Please stay inside.",
    "Don't open the doors.",
    "Tell me what you see.",
    "Quédese dentro, por favor.",
    "No abra las puertas.",
    "请留在电梯里。",
    "不要扒门。",
]
REMARKS = ["I hear you.", "That is frightening.", "Le escucho.", "我在听。", "Sigo aquí."]


def test_questions_instructions_and_remarks_are_told_apart() -> None:
    assert [text for text in QUESTIONS if not (asks(text) and leads_on(text))] == []
    assert [text for text in INSTRUCTIONS if asks(text) or not leads_on(text)] == []
    assert [text for text in REMARKS if leads_on(text)] == []


def test_every_question_of_the_shipped_procedures_leads_on() -> None:
    alone = [
        line.text
        for document in SopLibrary.load().documents.values()
        for (_, section), lines in document.sections.items()
        for line in lines
        if section == "ask" and not leads_on(line.text)
    ]
    assert alone == []


def test_words_are_compared_without_signs_case_and_width() -> None:
    assert plain("  We're STUCK,  ok？") == "we re stuck ok"
    assert contains(plain("we are three people"), plain("Three people!"))
    assert not contains(plain("we are thirteen"), plain("three"))
    assert contains(plain("我们有三个人。"), plain("三个 人"))
    assert not contains(plain("anything"), plain("?!"))


def test_a_sentence_that_refers_to_the_one_before_it_is_known() -> None:
    back = [
        *("Then pull.", "Do it slowly.", "It gives way.", "And lean on it.", "the doors apart."),
        *("Luego tire.", "Hágalo despacio.", "Pruébelo.", "然后用力。", "它会松开。", "慢慢来。"),
    ]
    alone = [
        *("Is anyone hurt?", "I am with you.", "That must be frightening.", "Please stay inside."),
        *("¿Hay alguien herido?", "Estoy con usted.", "有人受伤吗？", "请留在里面。"),
    ]
    assert [said for said in back if not refers_back(said)] == []
    assert [said for said in alone if refers_back(said)] == []
