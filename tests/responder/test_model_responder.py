"""A model words the reply, sentence by sentence; whatever it does, the caller hears a right one."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import Sentence, TurnAnalysis
from callflow.errors import StoreUnavailable
from callflow.responder import Piece
from callflow.responder.model import Failure, ModelError
from callflow.responder.model_responder import ModelResponder
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.sentences import leads_on, plain, split
from tests.responder.calls import Forbids, Speaks, Switch, call, chunks, later, reply

GREETING = "You've reached the lift emergency line. I'm an automated assistant."
GOOD = (
    "STEP: ask_injury\nSAY: That sounds fright",
    "ening.\nSAY [stay_inside]\nSAY: Is anybody hurt?\n",
)
SAID = "That sounds frightening. Please stay inside and keep away from the doors. Is anybody hurt?"
SCRIPT = "Please stay inside and keep away from the doors. Are you inside the lift now?"


def responder(
    *models: Speaks, check: Forbids | None = None, switch: Switch | None = None
) -> ModelResponder:
    return ModelResponder(
        models, ScriptedResponder(), check or Forbids(), switch or Switch(), reply_s=2.0
    )


def error(kind: Failure, name: str = "fake:one", **fields: float) -> ModelError:
    return ModelError(name, kind, **fields)  # type: ignore[arg-type]


def test_a_model_words_the_reply_and_the_step_is_the_question_it_asked() -> None:
    text, last = reply(responder(Speaks(GOOD)), later())
    assert text == SAID
    assert last == Piece("", last=True, sop_step=2)


def test_in_the_first_turn_the_greeting_comes_before_the_model_is_asked() -> None:
    model = Speaks(GOOD)
    pieces = responder(model).respond(call(), Event())
    assert next(pieces).text + next(pieces).text == GREETING
    assert model.prompts == []
    assert "".join(piece.text for piece in pieces) == f" {SAID}"


def test_each_sentence_is_spoken_as_soon_as_it_is_complete() -> None:
    pieces = responder(Speaks(GOOD)).respond(later(), Event())
    assert [piece.text for piece in pieces] == [
        "That sounds frightening.",
        " Please stay inside and keep away from the doors.",
        " Is anybody hurt?",
        "",
    ]


def test_plain_text_without_the_form_is_spoken_and_changes_no_step() -> None:
    text, last = reply(responder(Speaks(("I hear you. Is it dark?",))), later(sop_step=1))
    assert text == "I hear you. Is it dark?"
    assert last.sop_step == 1


def test_a_step_that_is_announced_and_not_asked_is_not_taken() -> None:
    _, last = reply(responder(Speaks(("STEP: ask_count\nSAY: Please sit down.",))), later())
    assert last.sop_step == 0


def test_a_step_that_is_no_next_question_is_not_taken() -> None:
    for name in ("ask_nothing", "stay_inside"):
        _, last = reply(responder(Speaks((f"STEP: {name}\nSAY: Is it dark?",))), later())
        assert last.sop_step == 0


def test_a_question_of_the_procedure_that_is_spoken_is_its_own_step() -> None:
    _, last = reply(responder(Speaks(("SAY: I hear you.\nSAY [ask_count]",))), later())
    assert last.sop_step == 3


def test_a_reply_that_leaves_the_caller_alone_ends_with_the_procedures_question() -> None:
    text, last = reply(responder(Speaks(("SAY: I hear you.",))), later(sop_step=1))
    assert text == "I hear you. Is anyone hurt or unwell?"
    assert last.sop_step == 2


def test_not_more_than_three_sentences_are_spoken_and_the_last_leads_on() -> None:
    model = Speaks(("One is said. Two is said. Three is said. Is this four?",))
    text, _ = reply(responder(model), later())
    assert text == "One is said. Two is said. Is this four?"
    model = Speaks(("One is said. Two is said. Three is said.",))
    text, _ = reply(responder(model), later())
    assert text == "One is said. Two is said. Are you inside the lift now?"
    model = Speaks(("Please sit. Please wait. Please breathe. Please go on.",))
    text, _ = reply(responder(model), later())
    assert text == "Please sit. Please wait. Please breathe."


def test_a_long_reply_ends_after_about_350_letters() -> None:
    long = "The words are " + "as long as they come and " * 8 + "now."
    text, _ = reply(responder(Speaks((f"{long} {long.replace('now', 'then')} Sit.",))), later())
    assert text == f"{long} Sit."


def test_a_model_that_says_the_same_for_ever_is_not_listened_to_for_ever() -> None:
    def for_ever() -> Iterator[str]:
        while True:
            yield "I hear you. "

    class Rambles(Speaks):
        def stream(self, *args: object, **fields: object) -> Iterator[str]:
            return for_ever()

    assert reply(responder(Rambles()), later())[0] == "I hear you. Are you inside the lift now?"


def test_a_sentence_that_is_not_true_yet_is_not_spoken() -> None:
    text, last = reply(responder(Speaks(("SAY [engineer]\nSAY [ask_inside]",))), later())
    assert text == "Are you inside the lift now?"
    assert last.remarks == ("model:too_early",)
    facts = {"dispatch.requested": True}
    text, _ = reply(responder(Speaks(("SAY [engineer]\nSAY [ask_inside]",))), later(facts=facts))
    assert text == "I've asked for an engineer. Are you inside the lift now?"


def test_a_sentence_that_nobody_knows_is_left_out() -> None:
    text, last = reply(responder(Speaks(("SAY [made_up]\nSAY: Are you hurt?",))), later())
    assert text == "Are you hurt?"
    assert last.remarks == ("model:unknown_sentence",)


def test_facts_are_kept_only_with_the_callers_words() -> None:
    said = 'SAY: Are you hurt?\nFACT: people=3 "three of us"\nFACT: floor=9 "on nine"\n'
    _, last = reply(responder(Speaks((said,))), later("there are three of us"))
    assert last.facts == {"people": 3}
    assert last.remarks == ("model:unfounded_fact",)


def test_a_wish_for_a_person_is_told_in_a_word_of_ours() -> None:
    say = "SAY: Are you hurt?\nHUMAN: "
    assert reply(responder(Speaks((say + "asked",))), later())[1].needs_human == "asked"
    _, last = reply(responder(Speaks((say + "Ann has chest pain",))), later())
    assert last.needs_human == "model: other"
    _, last = reply(
        responder(Speaks((say + "distress",))),
        later(retrieved_sop_chunks=chunks(needs_human="stuck is P1")),
    )
    assert last.needs_human == "stuck is P1"


def test_a_forbidden_sentence_is_left_out_and_the_rest_goes_on() -> None:
    model = Speaks(("SAY: I hear you. Push the doors apart. Then climb out. Is it dark?",))
    switch = Switch()
    text, last = reply(responder(model, switch=switch), later())
    assert text == "I hear you. Is it dark?"
    assert last.remarks == ("guard:doors",)
    assert model.closed == 1
    assert switch.told == ["fake:one ok"]


def test_where_nothing_is_left_after_a_forbidden_sentence_the_script_goes_on() -> None:
    for said in ("I hear you. Push the doors apart.", "I hear you. Climb out! Do it slowly."):
        text, last = reply(responder(Speaks((f"SAY: {said}",))), later())
        assert text == f"I hear you. {SCRIPT}"
        assert last.remarks == ("guard:doors", "model:script")
        assert last.sop_step == 1


def test_a_reply_that_goes_on_after_a_catch_still_leads_on() -> None:
    said = "SAY: Push the doors apart. I am still here with you.\nSTEP: ask_inside"
    text, last = reply(responder(Speaks((said,))), later())
    assert text == "I am still here with you. Are you inside the lift now?"
    assert last.sop_step == 1


def test_what_the_caller_asked_is_answered_by_the_script_where_the_model_may_not() -> None:
    line = Sentence(id="answer_may_open", text="No, please leave the doors.", answers="may_open")
    record = later(
        "can we open the doors",
        analysis=TurnAnalysis(turn=2, questions=("may_open",), answers=(line,)),
    )
    model = Speaks(("SAY: Sure, push the doors apart. Climb, too.\nSAY [ask_injury]",))
    text, last = reply(responder(model), record)
    assert text == "No, please leave the doors. Is anyone hurt or unwell?"
    assert last.remarks == ("guard:doors",)
    assert last.sop_step == 2


def test_a_model_that_is_caught_again_and_again_is_not_listened_to_for_ever() -> None:
    said = "SAY: " + "".join(f"Climb {n} times. " for n in ("one", "two", "three", "four", "five"))
    text, last = reply(responder(Speaks((said + "Is it dark?",))), later())
    assert text == SCRIPT
    assert last.remarks == ("guard:doors", "model:script")


@pytest.mark.parametrize(
    "said",
    [
        "SAY: Now push\nSAY: the doors apart.",
        "Now push! the doors apart.",
        "Push. The doors apart.",
    ],
)
def test_forbidden_advice_in_two_halves_is_known(said: str) -> None:
    text, last = reply(responder(Speaks((said,))), later())
    assert "apart" not in text
    assert "guard:doors" in last.remarks


def test_after_a_question_was_asked_the_script_asks_no_second_one() -> None:
    text, last = reply(responder(Speaks(("Is it dark? Push the doors apart.",))), later(sop_step=1))
    assert text == "Is it dark? Please stay inside and keep away from the doors."
    assert last.sop_step == 1


def test_the_script_does_not_repeat_what_the_model_has_said() -> None:
    model = Speaks(("SAY [stay_inside]\nSAY: Push the doors apart.",))
    assert reply(responder(model), later())[0] == SCRIPT


def test_a_second_model_words_the_reply_when_the_first_is_slow() -> None:
    first = Speaks(fails=[error("slow")])
    switch = Switch()
    text, last = reply(responder(first, Speaks(GOOD, name="fake:two"), switch=switch), later())
    assert text == SAID
    assert last.remarks == ("model:slow",)
    assert switch.told == ["fake:one failed", "fake:two ok"]


def test_when_both_fail_the_script_words_the_reply_in_the_same_turn() -> None:
    two = Speaks(fails=[error("unreachable")] * 2, name="fake:two")
    text, last = reply(responder(Speaks(fails=[error("slow")]), two), later())
    assert text == SCRIPT
    assert last.sop_step == 1
    assert last.remarks == ("model:slow", "model:unreachable", "model:script")


@pytest.mark.parametrize("kind", ["busy", "server", "unreachable", "cut"])
def test_a_stumble_is_tried_once_more_and_not_twice(kind: Failure) -> None:
    once = Speaks(GOOD if kind != "cut" else (), fails=[error(kind)])
    if kind != "cut":
        assert reply(responder(once), later())[0] == SAID
    twice = Speaks(fails=[error(kind)] * 9)
    other = Speaks(fails=[error(kind)] * 9, name="fake:two")
    assert reply(responder(twice, other), later())[0] == SCRIPT
    assert (len(twice.prompts), len(other.prompts)) == (2, 1)


def test_what_cannot_help_is_not_tried_again() -> None:
    kinds: tuple[Failure, ...] = ("slow", "refused", "auth", "nonsense")
    for kind in kinds:
        model = Speaks(fails=[error(kind)] * 9)
        assert reply(responder(model), later())[0] == SCRIPT
        assert len(model.prompts) == 1, kind


def test_a_busy_model_that_wants_to_be_left_alone_for_long_is() -> None:
    model = Speaks(fails=[error("busy", retry_after_s=20.0)] * 9)
    assert reply(responder(model), later())[0] == SCRIPT
    assert len(model.prompts) == 1


def test_a_reply_that_is_cut_off_goes_on_with_whole_sentences_of_the_script() -> None:
    model = Speaks(("SAY: I hear you. Please push the ala",), fails=[error("cut")])
    other = Speaks(GOOD, name="fake:two")
    text, last = reply(responder(model, other), later())
    assert text == f"I hear you. {SCRIPT}"
    assert last.remarks == ("model:cut", "model:script")
    assert other.prompts == []


def test_a_reply_that_is_cut_off_after_its_question_is_whole() -> None:
    model = Speaks((*GOOD, "FACT: people=3 "), fails=[error("cut")])
    text, last = reply(responder(model), later())
    assert (text, last.sop_step, last.remarks) == (SAID, 2, ("model:cut",))


def test_of_the_script_no_more_is_said_than_there_is_room_for() -> None:
    model = Speaks(("SAY: I hear you. That is frightening. Push the doors apart.",))
    text, _ = reply(responder(model), later())
    assert text == "I hear you. That is frightening. Are you inside the lift now?"


def test_a_remark_after_a_question_is_not_followed_by_another_question() -> None:
    text, _ = reply(responder(Speaks(("Are you hurt? I hear you.",))), later())
    assert text == "Are you hurt? I hear you. Please stay inside and keep away from the doors."


def test_a_model_that_was_given_too_little_time_is_not_blamed() -> None:
    class Late(Speaks):
        def stream(self, *args: object, **fields: object) -> Iterator[str]:
            Event().wait(0.1)
            raise ModelError(self.name, "slow")

    switch = Switch()
    hasty = ModelResponder(
        [Late(), Late(name="fake:two")],
        ScriptedResponder(),
        Forbids(),
        switch,
        first_token_s=0.5,
        reply_s=0.5,
    )
    assert reply(hasty, later())[0] == SCRIPT
    assert switch.told == ["fake:one failed"]


@pytest.mark.parametrize(
    "said",
    [
        '{"say": "Hello."}',
        "",
        "STEP: ask_inside\n",
        "SAY: Use short, calm, plain sentences.",
        "SAY: ****",
    ],
)
def test_nonsense_and_silence_are_left_to_the_next_model(said: str) -> None:
    switch = Switch()
    first = Speaks((said,))
    text, last = reply(responder(first, Speaks(GOOD, name="fake:two"), switch=switch), later())
    assert text == SAID
    assert last.remarks == ("model:nonsense",)
    assert switch.told == ["fake:one failed", "fake:two ok"]


def test_a_model_that_is_left_alone_is_not_asked() -> None:
    model = Speaks(GOOD)
    text, last = reply(responder(model, switch=Switch(off={"fake:one"})), later())
    assert text == SCRIPT
    assert last.remarks == ("model:open", "model:script")
    assert model.prompts == []


def test_a_wrong_key_bars_the_model_and_a_declined_reply_does_not_count() -> None:
    switch = Switch()
    reply(responder(Speaks(fails=[error("auth")]), switch=switch), later())
    reply(responder(Speaks(fails=[error("refused")]), switch=switch), later())
    reply(responder(Speaks(fails=[error("refused", status=400)]), switch=switch), later())
    assert switch.told == ["fake:one barred", "fake:one ok", "fake:one failed"]


def test_after_a_takeover_the_prompt_holds_what_was_heard_and_the_reply_goes_on() -> None:
    model = Speaks(("I hear you. That sounds frightening! Is anybody hurt?",))
    text, _ = reply(responder(model), later(draft="That sounds frightening."))
    assert "your reply:\nThat sounds frightening.\nGo on" in model.prompts[0].turn
    assert text == " I hear you. Is anybody hurt?"


def test_after_a_takeover_nothing_is_greeted_twice() -> None:
    text, _ = reply(responder(Speaks(GOOD)), call(draft=GREETING))
    assert text == f" {SAID}"
    text, _ = reply(responder(Speaks(GOOD)), call(draft="You've reached the lift emergency line."))
    assert text == f" I'm an automated assistant. {SAID}"


def test_a_reply_that_was_heard_up_to_its_question_is_whole() -> None:
    model = Speaks(GOOD)
    text, last = reply(responder(model), later(draft=SCRIPT))
    assert (text, last.sop_step) == ("", 1)
    assert model.prompts == []


def test_after_a_takeover_the_sentences_heard_count() -> None:
    draft = "That sounds frightening. Please stay inside and keep away from the doors."
    text, _ = reply(
        responder(Speaks(("Okay then. Sit down now. Is it dark?",))), later(draft=draft)
    )
    assert len(split(draft + text)) == 3
    assert leads_on(text)


@given(st.integers(0, 3), st.data())
def test_wherever_a_takeover_happens_no_sentence_comes_twice(
    pieces: int, data: st.DataObject
) -> None:
    again = data.draw(st.sampled_from([GOOD, (SAID,), ("I hear you. " + SAID,), ()]))
    whole = list(responder(Speaks(GOOD)).respond(call(), Event()))
    heard = "".join(piece.text for piece in whole[: pieces + 1])
    rest, last = reply(responder(Speaks(again)), call(draft=heard))
    sentences = [plain(sentence) for sentence in split(heard + rest)]
    assert len(sentences) == len(set(sentences))
    assert leads_on(split(heard + rest)[-1])
    assert last.last


def test_it_ends_at_once_when_the_lease_is_lost() -> None:
    stop, switch = Event(), Switch()
    model = Speaks(GOOD)
    pieces = responder(model, switch=switch).respond(later(), stop)
    assert next(pieces).text == "That sounds frightening."
    stop.set()
    assert not any(piece.last for piece in pieces)
    assert switch.told == []


def test_nobody_is_asked_when_the_lease_is_lost_before() -> None:
    stop = Event()
    stop.set()
    model = Speaks(GOOD)
    assert list(responder(model).respond(later(), stop)) == []
    assert model.prompts == []


def test_a_reply_that_nobody_listens_to_any_more_hangs_up_on_the_model() -> None:
    model = Speaks(GOOD)
    pieces = responder(model).respond(later(), Event())
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    assert model.closed == 1


def test_nothing_is_spoken_to_a_machine() -> None:
    model = Speaks(GOOD)
    assert reply(responder(model), later(retrieved_sop_chunks=chunks(silent=True)))[0] == ""
    assert model.prompts == []


def test_without_any_procedure_a_model_still_speaks() -> None:
    text, last = reply(
        responder(Speaks(("I hear you. Is it dark?",))), later(retrieved_sop_chunks=())
    )
    assert text == "I hear you. Is it dark?"
    text, _ = reply(responder(Speaks(fails=[error("slow")])), later(retrieved_sop_chunks=()))
    assert text.startswith("Please stay inside")
    assert last.sop_step == 0


def test_a_question_with_a_forbidden_id_is_not_offered() -> None:
    rule = Sentence(id="never_ask", text="Ask.", forbids=("ask_inside",))
    barred = tuple(
        chunk.model_copy(update={"sentences": (rule,)}) if chunk.section == "never" else chunk
        for chunk in chunks()
    )
    text, last = reply(
        responder(Speaks(("SAY [ask_inside]\nIs it dark?",))), later(retrieved_sop_chunks=barred)
    )
    assert text == "Is it dark?"
    assert last.remarks == ("model:unknown_sentence",)


def test_a_server_that_is_gone_is_not_hidden() -> None:
    class Gone(Switch):
        def may_ask(self, model: str, attempt: str) -> bool:
            raise StoreUnavailable("10.0.0.1:6379/0", "gone")

    with pytest.raises(StoreUnavailable):
        reply(responder(Speaks(GOOD), switch=Gone()), later())


def test_it_is_not_built_without_a_model_or_with_times_that_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="no model"):
        responder()
    for first_s, reply_s in ((0.0, 3.0), (-1.0, 3.0), (4.0, 3.0)):
        with pytest.raises(ValueError, match="first_token_s"):
            ModelResponder(
                [Speaks()],
                ScriptedResponder(),
                Forbids(),
                Switch(),
                first_token_s=first_s,
                reply_s=reply_s,
            )
