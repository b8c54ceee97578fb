"""Does a caller ask for a person? A lexicon of a few words in each language, whatever the call's.

A request is rather seen once too often: the person who is rung for it can say so. What must not
pass for one is a report about people: somebody is hurt, somebody is in the lift.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby

_PERSON_EN = r"(?:person|human(?: being)?|people|someone|somebody|anyone|anybody)(?: else)?"
_ROLE_EN = (
    r"(?:operator|agent|representative|dispatcher|receptionist|supervisor|manager|attendant|"
    r"technician|engineer|staff|control (?:room|centre|center)|customer (?:service|support|care))"
)
_MACHINE_EN = r"(?:machine|robot|bot|computer|recording|answering machine)s?\b(?! room)"

_ENGLISH = (
    # "I am talking to a man outside" is a report, and so is "he cannot talk to the man".
    rf"(?<!cant )(?<!cannot )(?<!can not )\b(?:speak|talk|chat) (?:to|with) (?:an? |some )?"
    rf"(?:real |actual |live |proper |human )*(?:{_PERSON_EN}|man|woman)\b",
    rf"\b(?:speak|talk|chat) (?:to|with) (?:an? |the |some |your )?"
    rf"(?:real |actual |live |proper |human )*{_ROLE_EN}\b",
    rf"\b(?:real|actual|live|proper) (?:{_PERSON_EN}|{_ROLE_EN})\b",
    r"\b(?:someone|somebody|anyone|anybody) (?:real|human)\b",
    r"\bhuman (?:being|operator|agent|please|now)\b|^human$|\b(?:want|need) humans?\b",
    r"\ba human(?= (?:to|on|who|here|there|instead|not|and|can)\b|$)",
    rf"\b(?:get|give|put|connect|transfer|pass|hand) (?:me|us) (?:please )?(?:through |over |on )?"
    rf"(?:to |with )?(?:an? |the |some |your )?(?:{_PERSON_EN}|{_ROLE_EN})\b"
    r"(?! (?:to|who can) (?:open|help|get|fix|come))",
    rf"\b(?:transfer|connect|put through) (?:to|with) (?:an? |the )?(?:{_PERSON_EN}|{_ROLE_EN})\b",
    rf"\b(?:get|put) (?:an? |the )?(?:{_PERSON_EN}|{_ROLE_EN}) on (?:the )?(?:phone|line)\b",
    rf"^(?:an? |the )?{_ROLE_EN}(?: please| now)?$|\b{_ROLE_EN} please$",
    r"\b(?:want|need|(?:can|could|may) i (?:have|get)) (?:an? |the )?"
    r"(?:person|operator|agent|representative|dispatcher)(?: please| now)?$",
    r"\b(?:dont|don t|do not|didnt) want (?:to (?:talk|speak) (?:to|with) )?"
    rf"(?:an? |this |the |any )?{_MACHINE_EN}",
    rf"\b(?:stop|hate|tired of|sick of|not) (?:(?:talking|speaking) (?:to|with) )?(?:to |with )?"
    rf"(?:an? |this |these ){_MACHINE_EN}",
    rf"\b(?:talk|speak) (?:to|with) (?:an? |this ){_MACHINE_EN}",
    rf"\b(?:hate|(?:talking|speaking) (?:to|with)) {_MACHINE_EN}|^no (?:more )?{_MACHINE_EN}",
    r"\b(?:are you|is this|am i (?:talking|speaking) (?:to|with)) (?:an? )?"
    rf"(?:real person|human|person|{_MACHINE_EN})",
    r"\b(?:is there|can) (?:anyone|anybody|someone|somebody) i can (?:talk|speak)\b",
    r"\b(?:someone|somebody|anyone|anybody) to (?:talk|speak) (?:to|with)\b",
    r"\bcan (?:someone|somebody|anyone|anybody|a person) (?:please )?(?:talk|speak) "
    r"(?:to|with) me\b",
)

_ART_ES = r"(?:una? |el |la |alguna? |otra? )?"
_PERSONA_ES = (
    r"(?:persona|humano|humana|ser humano|alguien|operadora?|agente|responsable|tecnico|"
    r"encargado|encargada)"
)
_MAQUINA_ES = r"(?:(?:una )?(?:maquina|grabacion)|(?:un )?(?:robot|contestador))(?:s|es)?\b"

_SPANISH = (
    rf"(?<!no puedo )(?<!no puede )\b(?:hablar|comunicarme) con {_ART_ES}{_PERSONA_ES}\b",
    r"\b(?:paseme|pasenme|pasame|pongame|ponme|comuniqueme|comunicame|conecteme|conectame|"
    rf"transfierame|derivame) (?:con |a )?{_ART_ES}{_PERSONA_ES}\b",
    r"\bme (?:puedes? |pueden |podria[ns]? |podria )?(?:pasar?|pasas|poner?|pones|comunicar?|"
    rf"conectar?|transferir|transfiere) (?:con|a) {_ART_ES}{_PERSONA_ES}\b",
    rf"\b(?:pasarme|ponerme|conectarme|transferirme) (?:con|a) {_ART_ES}{_PERSONA_ES}\b",
    r"\b(?:persona|humano|alguien) (?:real|de verdad|de carne)\b|\bser humano\b",
    r"\bme (?:atienda|atiende|conteste) (?:una persona|alguien|un humano|un operador)\b",
    r"\batencion (?:humana|personal|al cliente)\b",
    r"^(?:una? |el |la )?(?:operadora?|agente|humano)(?: por favor)?$",
    r"\b(?:operadora?|un humano|un agente) por favor$|^(?:con )?una persona por favor$",
    r"\b(?:quiero|quisiera|necesito|prefiero|deme|dame) (?:a )?"
    r"(?:un humano|una? operadora?|un agente|una persona(?: por favor| ya| ahora)?$)\b",
    rf"\bno (?:quiero )?(?:hablar )?(?:mas )?(?:con )?{_MAQUINA_ES}",
    rf"\b(?:eres|es usted|esto es|estoy hablando con) {_MAQUINA_ES}",
    r"\b(?:eres|es usted) (?:una persona|un humano|humano|humana)\b",
)

# 人工呼吸 is artificial respiration and 有人工作 somebody at work: no one is asked for.
_MANUAL_ZH = r"人工(?![作呼智湖河岛島草])"
_STAFF_ZH = rf"(?:{_MANUAL_ZH}|真人|客服|接线员|接線員|话务员|話務員|坐席|座席|工作人员|工作人員)"
_HEAD_ZH = r"(?:值班人员|值班人員|领导|領導|经理|經理|负责人|負責人)"
_ONE_ZH = r"(?:一?[个個位名])?"
_TALK_ZH = r"(?:说|說|讲|講|通话|通話|谈|談|聊|对话|對話|沟通|溝通)"

_CHINESE = (
    rf"(?<!主)[转轉接找叫要换換]一?下?(?:到|给我|給我|你们|你們)?的?{_ONE_ZH}{_STAFF_ZH}",
    r"^(?:人工|真人|客服|服务|服務)+[吧啊呢]?$",
    rf"[跟和与與同](?:你们|你們)?的?{_ONE_ZH}(?:{_MANUAL_ZH}|真人|活人|真的人|客服|接线员|接線員).{{0,3}}"
    rf"{_TALK_ZH}",
    rf"(?<!不)[想要能以][跟和与與同]{_ONE_ZH}(?:人|工作人员|工作人員).{{0,1}}{_TALK_ZH}",
    rf"[叫找让讓请請派]{_ONE_ZH}人[来來]?[跟和与與]我.{{0,2}}{_TALK_ZH}",
    rf"[叫找让讓请請](?:你们|你們)?的?{_ONE_ZH}(?:{_STAFF_ZH}|{_HEAD_ZH}|人)[来來]?接(?:一下)?(?:电话|電話|听|聽)",
    r"(?:不想|不要|别|別)再?(?:跟|和|与|與)?(?:机器|機器)",
    rf"有(?:没有|沒有)?(?:真人|{_MANUAL_ZH})|有[没沒]有活人",
    r"[你您][是係]不?[是係]?(?:真人|真的人|机器|機器|人工|人[吗嗎]|人$)",
    r"(?:真人|人工)(?:服务|服務|接听|接聽|客服|坐席|座席)",
)

# What people and recognisers put between words, in front of a person as often as anywhere.
_FILLERS = frozenset({"ah", "eh", "em", "er", "erm", "hm", "hmm", "mm", "uh", "uhm", "um"})

_ANY = tuple(re.compile(pattern) for pattern in (*_ENGLISH, *_SPANISH, *_CHINESE))


def asks_for_human(text: str) -> bool:
    """True when a caller asks for a person, in English, Spanish or Chinese.

    Case, accents, punctuation, words said twice, and the spaces that recognisers put between
    Chinese letters do not matter.
    """
    folded = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(char for char in folded if not unicodedata.combining(char))
    heard = re.sub(r"[^\w]+", " ", re.sub(r"['’]", "", bare)).split()
    words = " ".join(word for word, _ in groupby(w for w in heard if w not in _FILLERS))
    close = re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", "", words)
    return any(pattern.search(close) for pattern in _ANY)
