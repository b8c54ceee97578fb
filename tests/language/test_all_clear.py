"""Only an explicit statement that everybody is out, or was never in, is an all-clear."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.language.danger import all_clear

CLEAR = """
we're out now
we are all out
i'm out of the lift now
the doors opened and we got out
they let us out
the engineer got us out
everyone's out
everybody is safe
false alarm we're fine
it was a false alarm
we've been rescued
nobody is trapped
we're not stuck anymore
we don't need help anymore
i got out okay thank you
我们已经出来了
门开了我们出来了
人都出来了
我们已经脱困了
虚惊一场
没有人被困
是误报
ya hemos salido
ya estamos fuera
hemos salido todos
nos han sacado
nos han rescatado ya
falsa alarma
ya no estamos atrapados
no hay nadie atrapado
"""
NOT_CLEAR = """
we are all fine
everybody is okay
estamos todos bien
todos estamos bien gracias
我们都没事
大家都没事了
我们已经没事了
ok
okay fine
fine thanks
we're all fine
thank you
yes
i'm calm now
good
are we out
are they out yet
when will we get out
can you get us out
we want to get out
i hope we get out soon
please let us out
some of us got out
he got out but my wife is still inside
we got out but one person is still in there
two of us are out
only my friend got out
almost out
we can't get out
the lights are out
it's not a false alarm
if we're out before then i'll call you
last time we got out by ourselves
we are out but he is not breathing
he's out cold
the doors opened
没事
好的
还好
我想出来
什么时候能出来
我们出来了吗
还没出来
有的人出来了有的还在里面
我们出来了但是还有一个人在里面
不是误报
怎么出去
快让我出来
bien
gracias
quiero salir
cuándo salimos
no hemos salido
hemos salido pero mi hijo sigue dentro
algunos han salido
casi estamos fuera
no es una falsa alarma
espero que salgamos pronto
"""


def said(table: str) -> list[str]:
    return [line for line in table.splitlines() if line]


def test_explicit_statements_are_an_all_clear() -> None:
    assert not [text for text in said(CLEAR) if not all_clear(text)]


def test_calm_words_questions_wishes_and_parts_are_none() -> None:
    assert not [text for text in said(NOT_CLEAR) if all_clear(text)]


@given(st.text())
def test_any_text_is_understood_without_an_error(text: str) -> None:
    assert all_clear(text) in {True, False}


@given(
    st.sampled_from(said(CLEAR)), st.sampled_from([" there's smoke", " he's bleeding", " 着火了"])
)
def test_a_danger_in_the_same_breath_is_no_all_clear(text: str, danger: str) -> None:
    assert not all_clear(text + danger)
