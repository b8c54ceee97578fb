"""Who asks for a person is heard, and who reports that there are people is not taken for one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.utterance import MAX_UTTERANCE_CHARS
from callflow.sop.requests import asks_for_human

ASKED_ENGLISH = """
I want to speak to a person
can I talk to a real person please
let me talk to someone
get me a human
I want a human
human
operator
operator please
representative
can you put me through to someone
put me through to the control room
connect me to an operator
transfer me to a human being
I don't want to talk to a machine
I don't want to talk to a robot
stop this is a robot I want a real person
is there anybody real there
are you a real person
are you a robot
am I talking to a machine
speak to human
uh can i uh speak to somebody please
can I speak with a human
give me a person
I need to talk to a technician
can somebody real talk to me
I'd like to speak with the operator
get me your supervisor
pass me to a person
please i wanna talk to a person
I need a human
i need a person
is there a human there
could you get someone on the line
can someone talk to me
I want to talk to somebody real
no robot human
human please
talk to a live agent
live person
speak to an actual human being
I wanna speak with somebody
no machines please
let me speak to your manager
can you get a person on the phone
a real human being please
Can I speak to, um, a person?
speak to someone else
talk to a a person
I would rather talk to a human
can I have a human please
operator operator
customer service
hello i need to talk to a human being right now
could i speak with the receptionist
look just put me on to somebody
I'd like a real person
please let me speak to an operator
is this a machine
is this a recording
I am tired of talking to this robot
stop talking to me i want to talk to someone
get me a real human
human being please
can I please just talk to a person
talk to agent
agent
speak to representative
transfer me please to an agent
transfer to operator
connect me with a live agent
i can't talk to a machine
give me the operator
i want the operator
can you put somebody on the phone
put a human on the line
I need to talk to somebody
"""
ASKED_SPANISH = """
quiero hablar con una persona
quiero hablar con alguien
necesito hablar con un humano
páseme con un operador
pásame con alguien
póngame con una persona
operador por favor
operadora
un humano por favor
quiero un humano
no quiero hablar con una máquina
no quiero hablar con un robot
es usted una persona
estoy hablando con un robot
eres un robot
comuníqueme con un agente
quiero hablar con una persona real
puedo hablar con alguien por favor
eh puedo hablar con eh una persona
necesito una persona real
hay alguien de verdad ahí
persona real
agente
hablar con un técnico
quisiera hablar con un operador
me puede pasar con una persona
me puede comunicar con un operador
me pasa con alguien
prefiero hablar con una persona
deme un operador
quiero que me atienda una persona
atención humana
por favor quiero hablar con una persona
déjeme hablar con alguien
póngame con alguien por favor
quiero una persona
con un humano por favor
pásame a un operador
necesito que me atienda alguien
no me pase con una máquina quiero una persona
puede pasarme con alguien
puedo hablar con una persona de verdad
¿Hay alguien real ahí?
me comunica con una operadora
quiero hablar con el encargado
no entiendo a la máquina quiero hablar con alguien
prefiero que me atienda una persona
"""
ASKED_CHINESE = """
转人工
人工
人工服务
我要人工
帮我转人工
我要跟真人说话
我要和真人讲话
我想找真人
找人工客服
请转接线员
请转接人工
能不能转人工
有没有真人
你是真人吗
你是机器人吗
我不想跟机器人说话
不要机器人
我要客服
给我接人工
轉人工
我要跟真人講話
我不想跟機器人說話
請轉接線員
你是機器人嗎
有沒有真人
找真人客服
換真人
我 要 人 工 服 务
转 人工 转 人工
叫个人来跟我说话
找个人跟我说话
我想跟人说话
我想跟人說話
让真人接电话
叫你们工作人员接电话
我要找工作人员
麻烦转一下人工
幫我轉接真人客服
我要真人
我要和人对话
有人吗我要跟人说话
我要人工坐席
请帮我转人工服务
我想和真人通话
可以跟人讲话吗
我要找客服
让我跟真人说
帮我接一下人工
你是不是机器人
您是真人还是机器
别跟我用机器人了转人工
我不要跟机器讲话
麻烦您给我转接人工座席
叫真人来听
請幫我轉人工
我想找人工客服
可以幫我接真人嗎
你係真人嗎
我不要跟機器講話
请让值班人员接电话
叫你们领导接电话
"""

REPORTED_ENGLISH = """
a person is hurt
there is a person hurt in here
someone is hurt
somebody is bleeding
there are four people in the lift
three people are stuck
I am with an elderly person
I'm with a disabled person
my mother is an old woman
a man fainted
a woman is pregnant
someone is not breathing
there's a man lying on the floor
yes there are people inside
the engineer was here yesterday
the operator pushed the button
the technician left an hour ago
is someone coming
when is somebody coming
please send someone
send somebody quickly
can someone help us
get me out of here
get us out
please get someone to open the door
one person in a wheelchair
the man next to me can't speak
I can't talk to my husband he is unconscious
he doesn't talk
she can not speak english
there's a real problem
a person needs a doctor
another person has asthma
we need an ambulance
give me a minute
put me on speaker
it's not moving
the machine is making a noise
the machine room is on fire
the lift is not working
nobody is hurt
there is smoke
I'm talking to my wife on the phone
I'm the only person in here
is this the lift company
we are five persons
I am a manager
I'm the building manager
I work for the control room
I'm an engineer testing the line
a person with a dog
I have a person here who can't breathe
I need a person to open the door
someone is knocking on the door
somebody pressed the button
I hear people outside talking to someone
I was talking to a man outside
there's a man talking to someone outside
give the man some air
my friend is talking to people outside
a human leg is stuck in the door
human hand
the robot vacuum is in the lift with me
the recording keeps playing
are you a technician
the elevator is not a new machine
the person with me fell down
someone else is in here with me
we are seven people
my wife is talking to the neighbours
she's an engineer
two operators are stuck
it's a hotel and the manager knows
a person collapsed and is not talking
he is not speaking to us anymore
I think someone is on the roof
people are panicking
somebody is screaming
I got a text from the manager
i am the only human here
I don't need a person hurt
an elderly person needs water
the machine stopped between floors
is somebody on the way
can someone come
can someone open the door
get someone here fast
send an engineer
need a technician
there is no one to help
the operator said to press the button
staff are outside
"""
REPORTED_SPANISH = """
help me please
no one else just me
hay una persona mayor conmigo
hay una persona herida
una persona está herida
alguien está sangrando
hay tres personas
somos cuatro personas
hay una mujer embarazada
una persona se ha desmayado
un hombre no respira
alguien no puede respirar
estoy con una persona en silla de ruedas
soy la única persona aquí
necesito ayuda
necesitamos un médico
va a venir alguien
cuándo viene alguien
manden a alguien
el técnico estuvo aquí ayer
el operador pulsó el botón
hay humo
no hay nadie más
sí hay una persona
soy el responsable del edificio
oigo a alguien hablar fuera
la máquina hace ruido
hablé con una persona de fuera
alguien está golpeando la puerta
una persona
hay una persona sorda que no habla
hay alguien atrapado
está la persona consciente
la persona no habla
una persona con diabetes
hay alguien conmigo
no hay nadie herido
vienen los técnicos
una persona no se mueve
somos dos personas
una persona tiene claustrofobia
mi madre es una persona mayor
alguien grita
la persona que está conmigo no puede hablar
hay un técnico fuera
mande a un técnico
el responsable no contesta
una máquina de café
"""
REPORTED_CHINESE = """
有人受伤
有人受傷
有人晕倒了
里面有三个人
裡面有三個人
有个老人
有一个孕妇
有人不能呼吸
有人流血了
我一个人
我和一个老人
没有人受伤
就我一个人
有人来吗
什么时候有人来
快叫人来
快找人来救我们
快派人来
叫救护车
有人在外面说话
外面有人说话
他不能说话
工作人员刚才在这里
維修人員剛走
机器有声音
机器坏了
电梯坏了
有工作人员被困
工作人员受伤了
客服中心在几楼
人工湖旁边的电梯
人工智能大厦
我是工作人员
我是物业的工作人员
我跟一个工作人员被困
跟我一起的人受伤了
有个残疾人
有小孩
有 人 受 伤
有 人 昏 倒
叫人开门
他跟外面的人说话
和我同事说话
真的有人受伤了
两个人被困
接我们出去
转不了了
没人
里面有人昏迷
有人心脏病
有两个人
一个大人一个小孩
有人被夹住了
需要人工呼吸
外面有工作人员
工作人员已经来了
我们五个人
有老人不舒服
裡面有人暈倒
有人受傷流血
我老婆在哭
有人敲门
人很多
没有人来
有人在修电梯
机器在响
我跟我妈妈
不能说话
有人工作的声音
真的没有人
"""


def _lines(*texts: str) -> list[str]:
    return [line for text in texts for line in text.strip().splitlines()]


ASKED = _lines(ASKED_ENGLISH, ASKED_SPANISH, ASKED_CHINESE)
REPORTED = _lines(REPORTED_ENGLISH, REPORTED_SPANISH, REPORTED_CHINESE)
PIECES = (
    *(
        "speak ",
        "talk to ",
        "a ",
        "real ",
        "human ",
        "live ",
        "person ",
        "get me ",
        "not ",
        "is this ",
    ),
    *(
        "hablar con ",
        "una ",
        "me puede ",
        "no ",
        "por favor ",
        "转",
        "人工",
        "服务",
        "跟",
        "人",
        "叫",
        "你们",
    ),
    *(" ", "\n", "'", "’", "e\u0301", "um ", "0", ".", "人 工 "),
)


@pytest.mark.parametrize("text", ASKED)
def test_a_caller_who_asks_for_a_person_is_heard(text: str) -> None:
    assert asks_for_human(text)


@pytest.mark.parametrize("text", REPORTED)
def test_a_report_about_people_is_no_request(text: str) -> None:
    assert not asks_for_human(text)


@pytest.mark.parametrize("text", ["", " ", "...", "um", "？", "\0", "\ud83d"])
def test_nothing_said_is_no_request(text: str) -> None:
    assert not asks_for_human(text)


def _noisy(text: str) -> list[str]:
    """The same as recognisers write it."""
    return [
        text.upper(),
        f"  {text}. ",
        text.replace("'", "’"),
        text.replace("'", ""),
        text.replace(" ", "  "),
        f"um {text}",
        text.replace(" ", ", "),
        text.replace(" a ", " a a ").replace("我", "我 我 "),
        " ".join(text) if text[0] > "\u4dff" else text,
    ]


@pytest.mark.parametrize("text", ASKED)
def test_spelling_does_not_matter_for_a_request(text: str) -> None:
    missed = [noisy for noisy in _noisy(text) if not asks_for_human(noisy)]
    assert not missed


@pytest.mark.parametrize("text", REPORTED)
def test_spelling_does_not_make_a_report_a_request(text: str) -> None:
    taken = [noisy for noisy in _noisy(text) if asks_for_human(noisy)]
    assert not taken


def test_a_request_is_heard_at_the_end_of_a_report() -> None:
    assert asks_for_human("there is a person hurt in here, please let me talk to a human")
    assert asks_for_human("hay una persona herida, quiero hablar con alguien")
    assert asks_for_human("有人受伤了，快帮我转人工")


def test_first_aid_is_no_request() -> None:
    for text in ("他需要人工呼吸", "要人工呼吸吗", "外面有人工作", "人工湖旁边", "上面有人工作業"):
        assert not asks_for_human(text)


def _seconds(text: str) -> float:
    """The best of three: a shared machine has its pauses."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        asks_for_human(text)
        taken.append(time.process_time() - start)
    return min(taken)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.booleans())
def test_a_long_text_takes_no_long_time(pieces: list[str], ends_well: bool) -> None:
    unit = "".join(pieces)
    text = (unit * MAX_UTTERANCE_CHARS)[:MAX_UTTERANCE_CHARS] + ("" if ends_well else "§x")
    assert _seconds(text) < 1


@given(st.text(max_size=2_000))
def test_any_text_has_an_answer(text: str) -> None:
    assert asks_for_human(text) in (True, False)
