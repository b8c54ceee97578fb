"""A model's lines are read as they come; what nobody could be made to hear is nonsense."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.responder.model_reply import (
    ApprovedChosen,
    FactClaimed,
    HumanAsked,
    Nonsense,
    OwnWords,
    QuestionAsked,
    ReplyParser,
    ReplyPart,
    verify_fact,
)

WHOLE = (
    "STEP: ask_injury\n"
    "SAY: That sounds frightening. I'm here.\n"
    "SAY [stay_inside]\n"
    "SAY: Is anybody hurt?\n"
    'FACT: people=3 "there are three of us"\n'
    "HUMAN: distress\n"
)
PARTS: list[ReplyPart] = [
    QuestionAsked("ask_injury"),
    OwnWords("That sounds frightening."),
    OwnWords("I'm here."),
    ApprovedChosen("stay_inside"),
    OwnWords("Is anybody hurt?"),
    FactClaimed("people", "3", "there are three of us"),
    HumanAsked("distress"),
]


def read(*texts: str, end: bool = True) -> list[ReplyPart]:
    reading = ReplyParser()
    parts = [part for text in texts for part in reading.feed(text)]
    return parts + (list(reading.end()) if end else [])


def test_every_form_of_line_is_understood() -> None:
    assert read(WHOLE) == PARTS


@given(st.lists(st.integers(1, 30), min_size=1))
def test_it_does_not_matter_where_the_stream_is_divided(sizes: list[int]) -> None:
    texts: list[str] = []
    rest = WHOLE
    while rest:
        size = sizes[len(texts) % len(sizes)]
        texts.append(rest[:size])
        rest = rest[size:]
    assert read(*texts) == PARTS


def test_a_sentence_is_there_before_the_next_is_complete() -> None:
    assert read("SAY: Stay calm. And th", end=False) == [OwnWords("Stay calm.")]


def test_half_a_sentence_is_nothing_when_the_reply_is_cut_off() -> None:
    assert read("SAY: I'm here. Please push the", end=False) == [OwnWords("I'm here.")]


LOOSE: list[tuple[str, list[ReplyPart]]] = [
    ("I hear you. Are you hurt?", [OwnWords("I hear you."), OwnWords("Are you hurt?")]),
    ("Stay inside.\nSit down.", [OwnWords("Stay inside."), OwnWords("Sit down.")]),
    ('SAY: "Stay inside."', [OwnWords("Stay inside.")]),
    ("say: stay inside. are you hurt?", [OwnWords("stay inside."), OwnWords("are you hurt?")]),
    ("SAY: [stay_inside]", [ApprovedChosen("stay_inside")]),
    ("SAY [a_1] [b_2]", [ApprovedChosen("a_1"), ApprovedChosen("b_2")]),
    (
        "SAY: Listen. [a_1] Are you hurt?",
        [OwnWords("Listen."), ApprovedChosen("a_1"), OwnWords("Are you hurt?")],
    ),
    ("SAY: I hear you. STEP: ask_x\n", [OwnWords("I hear you."), QuestionAsked("ask_x")]),
    ("- SAY: Sit down.\n- HUMAN: asked", [OwnWords("Sit down."), HumanAsked("asked")]),
    ("SAY: 请留在电梯里。您受伤了吗？", [OwnWords("请留在电梯里。"), OwnWords("您受伤了吗？")]),
    ("Say your name please.", [OwnWords("Say your name please.")]),
    ("Step back from the doors.", [OwnWords("Step back from the doors.")]),
    ("Assistant: Sit down.\nA: Is it dark?", [OwnWords("Sit down."), OwnWords("Is it dark?")]),
    ("Here is the reply:\nSit down.", [OwnWords("Sit down.")]),
    ("HUMAN: none", []),
    ("HUMAN: she said that her name is Ann", [HumanAsked("other")]),
    ("FACT: people=3", []),
    ("FACT: floor=4 “第四层”", [FactClaimed("floor", "4", "第四层")]),
    ("STEP:\nSAY: …\n", []),
    ("", []),
]


def test_lines_of_a_model_that_keeps_the_form_loosely() -> None:
    assert [(text, read(text)) for text, _ in LOOSE] == LOOSE


NONSENSE = [
    '{"say": "Stay inside."}',
    '[{"say": 1}]',
    "```\nSAY: Hello.\n```",
    "SAY: **Stay** inside.",
    "# Reply\nStay.",
    "<think>They may be hurt.</think>",
    "SAY: See https://example.org now.",
    "CALLER>>> said it.",
    "SAY: Stay \U0001f600 calm.",
    "SAY: no no no no no no.",
    "SAY: aaaaaaaaaaaah.",
    "SAY: " + "and on " * 60,
    "SAY: snake_case is no speech.",
    "FACT: " + "x" * 400,
    "SAY [" + "x" * 90,
    "SAY: [not an id!] Hello.",
]


def is_nonsense(text: str) -> bool:
    try:
        read(text)
    except Nonsense:
        return True
    return False


def test_what_nobody_can_say_is_nonsense() -> None:
    assert [text for text in NONSENSE if not is_nonsense(text)] == []


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parts = read(text)
    except Nonsense:
        return
    for part in parts:
        if isinstance(part, OwnWords):
            assert not set(part.text) & set("{}<>[]\n|`")


SAID = ("hello there are three of us", "we're at floor twelve of 4 Mill Lane", "no one's hurt")


TAKEN: list[tuple[str, str, str, tuple[str, ...], object]] = [
    ("people", "3", "three of us", SAID, 3),
    ("people", "3", "There are three of us!", SAID, 3),
    ("people", "1", "it's just me", ("it's just me in here",), 1),
    ("people", "2", "我们两个人", ("我们两个人困住了",), 2),
    ("people", "4", "somos cuatro", ("somos cuatro aquí",), 4),
    ("floor", "12", "floor twelve", SAID, "12"),
    ("floor", "Mill Lane", "of 4 mill lane", SAID, "Mill Lane"),
    ("injured", "false", "no one's hurt", SAID, False),
    ("injured", "yes", "my arm hurts", ("my arm hurts",), True),
    ("vulnerable", "child, pregnant", "my kid", ("my kid is here",), ["child", "pregnant"]),
    ("danger", "smoke", "hay humo", ("aquí hay humo",), ["smoke"]),
    (
        "callback_number",
        "07712",
        "oh double seven one two",
        ("oh double seven one two",),
        "07712",
    ),
]


def test_a_fact_is_taken_with_the_callers_words() -> None:
    assert [(*fact, verify_fact(*fact)) for *fact, _ in TAKEN] == TAKEN  # type: ignore[arg-type]


UNFOUNDED = [
    ("people", "3", "three people"),
    ("people", "4", "three of us"),
    ("people", "many", "three of us"),
    ("people", "three", "three of us"),
    ("people", "0", "no one's hurt"),
    ("people", "3", ""),
    ("people", "3", "..."),
    ("floor", "13", "floor twelve"),
    ("name", "Ann", "hello there"),
    ("injured", "perhaps", "no one's hurt"),
    ("danger", "boredom", "no one's hurt"),
    ("lift_id", "4", "hello"),
    ("dispatch.requested", "true", "hello there"),
    ("eta_minutes", "12", "floor twelve"),
    ("release.confirmed", "true", "no one's hurt"),
    ("callback_number", "55512", "floor twelve of 4 Mill Lane"),
    ("name", "x" * 90, "hello there"),
]


def test_a_fact_that_the_callers_words_do_not_hold_is_not_taken() -> None:
    assert [fact for fact in UNFOUNDED if verify_fact(*fact, SAID) is not None] == []
