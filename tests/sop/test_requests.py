"""Who asks for a person is heard, and who reports that there are people is not taken for one."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.utterance import MAX_UTTERANCE_CHARS
from callflow.language.requests import asks_for_human

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
can i speak to a real person
could you put me on to somebody
i want to speak to your supervisor
let me speak to a human
can you get a human on the line please
i'd rather speak to a person
i need to speak to someone now
is there a human i can talk to
is there someone i can speak to
is there anyone there i can talk to
put a person on
put a real person on
get a person on the line
can i talk to anyone
get me an operator
operator now
switch me to an operator
redirect me to a person
i need an operator
just give me an actual person
i don't want a robot
i dont want to speak to a computer
enough with the robot
can a human help me please
human operator
transfer me
put me through
put me through please
i want to be transferred
i want to be connected to a person
let me talk to a proper person
can i have a word with someone
can i have someone real
get someone on the phone
you're a robot i want a person
may i speak with somebody in charge
speak to the fire brigade
let me speak to the police
i wanna talk to a real human
this is a robot isn't it
i am not talking to a robot
i refuse to talk to a machine
hand me over to a person
connect me to a human agent
can you connect me with a person
hello operator
person please
a person please
real human
someone real please
can i get a live operator
need to speak with someone who is real
i need to talk to an actual human now please hurry
please connect me
talk to person
i want to speak to the security guard
speak to reception
can you pass me on to the lift company
i'd like to speak to the control room
is anybody there a person
i want person
want to talk person
want human
could i have an operator
i would like to talk to somebody please
hi can you put me in touch with a person
please get a human
stop i don't want the robot i want someone
can i get a human
get a real person on this line
i want to hear a human voice
i need a human being on the line
could someone from the company talk to me
can i talk with the caretaker
let me talk to the engineer
i'd prefer to talk to a person
may i have a person please
i asked for a person
i said i want a person
i keep asking for a person
are you human
you are not a human
you're not a real person
this isn't a person
is this a real person
are you an ai
is this an ai
i don't want to talk to an ai
am i speaking with a human
speak to customer services
agent please
i need an agent
get me your manager
can your colleague talk to me
transfer this call
transfer the call please
put someone on the line
put your supervisor on
is there any human being there
let me talk to someone who can help
want a human not a machine
not a robot please
can you just connect me to somebody
hello i want to speak to a human can you hear me
i wish to speak with a member of staff
let me talk to your boss
excuse me can i speak to a human
will you please get me a real person
i demand to speak to a person
how do i get a human
how can i speak to a person
is it possible to talk to someone
i want to talk to a man not a computer
i'd like a human please
get off the line i want a person
can a person take over
can a person come on the line
please hand over to a human
i'm done with this bot
you're just a computer
i need an actual operator
talk to someone in charge
let me speak with somebody else
please put me through to your control centre
can i speak to the owner
would you get me a representative please
where is the operator
is there an operator
hook me up with an operator
operator operator operator please
can i get someone on the line
i don't want to speak to you i want a person
speak with agent
let me talk to an engineer please
give me someone real
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
quiero hablar con una persona de verdad
con un operador por favor
quiero un operador
me pasa con una persona por favor
puede pasarme a un operador
páseme a un humano
necesito hablar con una persona ya
quiero que me pasen con alguien
hay alguien con quien pueda hablar
hay una persona con quien hablar
no quiero hablar con una grabación
no quiero una máquina
esto es una máquina
esto es un contestador
usted es un robot
es una grabación esto
quiero hablar con el supervisor
hablar con operador
persona por favor
una persona por favor
puedo hablar con un ser humano
que se ponga una persona
que se ponga alguien
póngame a una persona
me comunicas con un humano
quiero hablar con alguien de carne y hueso
operador
quiero hablar con un agente humano
transfiérame
transfiérame con un operador
quiero persona real
hablar con humano
quiero hablar con los bomberos
deseo hablar con una persona
me gustaría hablar con una persona
pásenme con el técnico
conécteme con un agente
hablar con soporte
estoy harto de la máquina
no entiendo al robot páseme con alguien
es usted una máquina o una persona
eres una persona real
eres humano
por favor una persona
un agente
pásame con alguien por favor
quiero que me atienda un humano
que me atienda una persona
quiero un agente
déjame hablar con una persona
necesito hablar con alguien por favor
hay algún humano ahí
hay alguien real
no quiero hablar contigo quiero una persona
quiero hablar con un operario
me puede atender una persona
puede atenderme una persona
páseme con alguien de la empresa
quiero hablar con el técnico
prefiero hablar con un humano
esto es un robot
estoy hablando con una máquina
no me pongan con un robot
con un agente por favor
podría hablar con alguien
operador operador
pido hablar con una persona
páseme ya con una persona
póngame con la central
comuníqueme con un ser humano
un operador humano
eres una inteligencia artificial
quiero voz humana
quiero hablar ya con una persona
con quién hablo es usted una máquina
páseme con un supervisor por favor
quiero una operadora
por favor páseme con una persona
puede ponerme con alguien
necesito un operador
quiero hablar con una persona no con una máquina
hablar con agente
me pueden pasar con un técnico
que alguien hable conmigo
que me hable una persona
no quiero hablar con usted quiero un humano
quiero que conteste una persona
dónde está el operador
persona humana
operador humano por favor
póngame con un operador ya
no quiero robots
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
转接人工客服
我要找人工
找个真人
帮我找个人接电话
有人工吗
有没有人工服务
我想跟真人对话
你是人还是机器
叫真人来
我要跟人说话
让人来跟我说
让一个人跟我说话
换个人跟我说
能不能找个人跟我讲话
我要跟工作人员说话
接人工
接客服
请接线员
叫接线员
你们有人吗找个人说话
别用机器人跟我说
不想跟机器说
不要跟机器人讲
我不要机器人
我要同真人講嘢
轉真人
我要真人服務
找主管
我要找经理
找你们负责人
转人工坐席
麻烦转人工谢谢
人工人工
可以转人工吗
我想和真的人说话
叫人来接电话
让你们的人接电话
给我转人工
幫我轉人工
我想搵真人
要真人
我想跟客服说话
我要投诉转人工
你是机器吗
是不是机器人啊
这是机器人吗
是真人吗
是人工吗
给我找个活人
我要活人
我想要人工服务
帮我接一下真人
有没有人能跟我说话
能让真人跟我说吗
请让工作人员跟我讲话
我不想听机器说话
能换个人吗跟我说话
请转客服
请帮我接客服
叫你们客服来
我要跟你们经理说话
我要跟你们老板说
可以找个真人吗
能给我转接一下吗
转接人工
你不是真人吧
你是AI吗
我要真的人
需要人工
需要真人
请问有人工服务吗
按哪个键转人工
轉接人工服務
我要搵真人
唔想同機械人講
有冇真人
我要跟人讲话
帮我叫个真人
我需要人工客服
别给我机器人
叫你们的人跟我说
能不能让人来接
请给我真人服务
我想跟你们的人说话
有人工客服吗
你们那边有真人吗
我要人来跟我说话
能不能转给人工
转给客服
你是电脑吗
你是真的人吗
這是錄音嗎
我要跟人講電話
可唔可以同真人講
叫個人嚟聽電話
我要找人工服务
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
is there a person in the lift
nobody answers the operator panel
there is a real person trapped under the door
someone fainted and we need help
i'm talking to my mother
he can't talk to anyone he's fainted
she wants to talk to her mum
my son is talking to a person through the door
a live wire is hanging down
real smoke
there's an agent with me
i'm the operator of this lift
the lift operator is unconscious
there is a woman with me who is having a panic attack
two people and a dog
someone gave me this number
the person in here is not responding
we've been talking to someone outside
can someone call my husband
someone needs an ambulance
get a doctor
get the fire brigade
send the police
the engineer told us to wait
we have a technician with us
the computer screen is dark
i was carrying a computer
i hear a recording
no person is hurt
no one here
i am not a person who panics
the buttons are real hot
he is a real big man
a human foot is caught
one person is diabetic
my manager is in here with me
customer service desk is on floor two
we are customer service staff
agent smith is stuck with me
yes a person
yes one person
just one person
only me
a person
one person
three people please hurry
someone please
somebody please help
can anybody hear me
is anyone there
is anybody there
hello is someone there
please get someone
get somebody down here please
i need someone to come
i need somebody to open the doors
call someone
call an engineer
call the operator of the building
is this the operator
the man is talking
my dad can't speak
she is speaking to the baby
no i'm alone there's no one to talk to
transfer window is broken
we want people to come
give my wife some water
give someone a call outside
the guy told me to talk to you
put the person in recovery position
hand stuck
he passed out
connect the power
my colleague is stuck in here with me
i'm a member of staff
we asked for an engineer an hour ago
he's asking for his mum
let me tell you the doors are stuck
can you talk to me please i'm scared
please keep talking to me
get the doctor
the doctor is in here with me
i can't reach the front desk
the guard is outside
security guard is trying the door
the police are here
someone's having a heart attack
she says a person fell
i work in reception
i'm from the lift company
it's a computer room on floor three
the automatic system stopped
there's an automatic voice saying door closing
this isn't a drill
it's not a person it's a dog
put the person on the floor
put a blanket on
you're not moving are you
is this floor two
is this the third floor
are you there
are you still there
is this thing on
there's a human in here
real bad pain
a man next to me needs help
give us a hand
pass me the phone
connect to wifi
i'm connected to oxygen
his oxygen isn't connected
the staff are outside talking to us
people can hear us talking
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
la persona está herida
hay alguien herido
no hay nadie que hable
somos tres personas
una persona mayor se ha caído
mi hijo habla con una persona fuera
está hablando con alguien por el móvil
el agente de seguridad está fuera
el encargado del edificio está aquí
necesito una ambulancia
necesito un médico
que venga alguien
quiero que venga una persona
quiero salir
manden una persona
necesito que alguien abra
una persona está atrapada
sí una persona
una
solo una persona
hay un robot aspirador
la máquina está fallando
el ordenador
la persona no respira
soy el técnico
soy operador de grúa
la operadora de limpieza está conmigo
estoy sola no hay nadie
dígale a alguien que venga
llamen a una persona
llame a un técnico
hay un humano atrapado
estamos con un agente de policía
se ha ido la luz
mi mujer no puede hablar con nadie
me pongo nerviosa
ponga la luz
pase lo que pase
me pasa algo
me pasa que no respiro bien
alguien por favor
por favor ayuda
el médico está aquí conmigo
la policía está fuera
el portero está fuera
hay un empleado atrapado
soy empleada del hotel
soy de mantenimiento
mi compañero está herido
me pongo mala
me ponen nerviosa
no puedo hablar
habla bajito
mi marido está hablando con el portero
una persona ciega
la persona de limpieza
el ascensor es automático
se oye una grabación
la voz dice puerta cerrada
me atienden por ansiedad
con mi hijo
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
里面有人吗
我们有四个人
快来人
来人啊
救命
有没有人
有人吗
喂有人吗
有人在吗
叫人来
找人来修
派人来
找人开门
叫个人来
人工湖
人工草坪旁边的楼
真的人很多
我要出去
我跟孩子在一起
我和同事
老人说不出话
外面的人说话听不见
他跟我说他头晕
有个工作人员晕倒了
我是客服
客服楼
机器响
你是谁
您是哪位
你们是物业吗
你是物业的人吗
请让人来
麻烦叫人过来
我想要人来救我
能找个人来吗
让人来开门
接到电话了吗
转了一圈
转身
有机器的声音
人在电梯里面
换人
电梯机器房
工作人员说等一下
请工作人员过来
找维修人员来
我要叫救护车
两个真人大小的模特
老板也在里面
经理被困
保安在外面跟我说话
工作人员跟我说等一下
维修工跟我说马上来
我跟我老板说了
有人跟我说话在外面
机械声很大
机器人送餐车在里面
机器人在电梯里撞门
酒店机器人卡住了
换了电梯
电话打不通
转接头
人工耳蜗
我儿子要做人工透析
人工关节
我是经理
找不到工作人员
找人来
叫保安来开门
你是在几楼
你是物业吗
有没有人受伤不知道
听到机器响
我想和妈妈说话
我想跟我老公说话
人在里面
语音说请勿靠近
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
