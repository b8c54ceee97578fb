"""Does a caller ask for a person? A lexicon of a few words in each language, whatever the call's.

A request is rather seen once too often: the person who is rung for it can say so. What must not
pass for one is a report about people: somebody is hurt, somebody is in the lift.
"""

from __future__ import annotations

import re
import unicodedata

_PERSON_EN = r"(?:person|human(?: being)?|human being|people|someone|somebody|man|woman|body)"
_ROLE_EN = (
    r"(?:operator|agent|representative|dispatcher|receptionist|supervisor|manager|attendant|"
    r"technician|engineer|staff|control (?:room|centre|center))"
)

_ENGLISH = (
    rf"\b(?:speak|talk|talking|speaking|chat) (?:to|with) (?:an? |the |some |your )?"
    rf"(?:real |actual |live |proper |human )*(?:{_PERSON_EN}|{_ROLE_EN})\b",
    rf"\b(?:real|actual|live|proper) (?:{_PERSON_EN}|{_ROLE_EN})\b",
    r"\bhuman (?:being|operator|agent|please|now)\b|\ba human\b|^human$|\b(?:want|need) humans?\b",
    rf"\b(?:get|give|put|connect|transfer|pass|hand) (?:me|us) (?:through |over |on )?"
    rf"(?:to |with )?(?:an? |the |some |your )?(?:{_PERSON_EN}|{_ROLE_EN})\b",
    rf"^(?:an? |the )?{_ROLE_EN}(?: please| now)?$|\b{_ROLE_EN} please\b",
    r"\b(?:not|stop|hate|tired of|sick of) (?:talking to |want )?(?:a |this |the )?"
    r"(?:machine|robot|bot|computer|recording)\b",
    r"\b(?:are you|is this|am i (?:talking|speaking) to) a (?:real person|human|person)\b",
    r"\b(?:is there|can) (?:anyone|anybody|someone|somebody) (?:real|human|i can (?:talk|speak))\b",
)

_PERSONA_ES = r"(?:persona|humano|humana|alguien|operador|operadora|agente|responsable|tecnico)"

_SPANISH = (
    rf"\b(?:hablar|hablo|comunicarme) con (?:una? |el |la |alguna? )?(?:{_PERSONA_ES})\b",
    rf"\b(?:paseme|pasenme|pasame|pongame|ponme|comuniqueme|conecteme|transfierame|derivame) "
    rf"(?:con |a )?(?:una? |el |la )?(?:{_PERSONA_ES})\b",
    r"\b(?:persona|humano) (?:real|de verdad|de carne)\b|\bser humano\b",
    r"^(?:una? |el |la )?(?:operador|operadora|agente|humano|persona)(?: por favor)?$",
    r"\b(?:operador|operadora|un humano|una persona|un agente) por favor\b",
    r"\b(?:quiero|necesito|prefiero) (?:a )?(?:un humano|un operador|una operadora|un agente)\b",
    r"\bno (?:quiero )?(?:hablar con )?(?:una maquina|un robot|un contestador)\b",
    r"\b(?:eres|es usted|estoy hablando con) (?:una persona|un humano|una maquina|un robot)\b",
)

_CHINESE = (
    r"[转轉接找叫要换換]一?下?(?:个|個|位|到|给我|給我)?(?:人工|真人|客服|接线员|接線員|话务员|話務員|坐席|工作人员|"
    r"工作人員)",
    r"^(?:人工|真人|人工服务|人工服務|人工客服|客服)$",
    r"[跟和与與同](?:一个|一個|个|個|位)?(?:真人|人工|活人|真的人|客服|接线员|接線員|工作人员|工作人員)"
    r".{0,3}(?:说|說|讲|講|通话|通話|谈|談|聊|对话|對話)",
    r"(?:不想|不要|别|別)(?:跟|和|与|與)?(?:机器|機器)",
    r"有(?:没有|沒有)?(?:真人|人工|活人)",
    r"(?:你|您)是(?:不是)?(?:真人|机器人|機器人|人工)",
    r"(?:真人|人工)(?:服务|服務|接听|接聽|客服|坐席)",
)

_ANY = tuple(re.compile(pattern) for pattern in (*_ENGLISH, *_SPANISH, *_CHINESE))


def asks_for_human(text: str) -> bool:
    """True when a caller asks for a person, in English, Spanish or Chinese.

    Case, accents, punctuation and the spaces that recognisers put between Chinese letters do not
    matter.
    """
    folded = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(char for char in folded if not unicodedata.combining(char))
    words = " ".join(re.sub(r"[^\w]+", " ", bare.replace("'", "")).split())
    close = re.sub(r"(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])", "", words)
    return any(pattern.search(close) for pattern in _ANY)
