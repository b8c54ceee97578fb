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
    r"technician|engineer|(?:member of )?staff|colleague|control (?:room|centre|center)|"
    r"customer (?:services?|support|care))"
)
# Who is asked for by "speak to" or "put me through to" alone: "get me to the doctor" is no request.
_SERVICE_EN = (
    r"(?:police|fire (?:brigade|service|department)|fire ?fighters?|ambulance|paramedics?|doctor|"
    r"nurse|security(?: guard)?|guard|reception|front desk|concierge|caretaker|maintenance|"
    r"(?:lift|elevator|service) company|boss|owner|person in charge|dispatch)"
)
_CANNOT_EN = r"(?<!cant )(?<!cannot )(?<!can not )"
_MACHINE_EN = (
    r"(?:machine|robot|(?:chat)?bot|computer|recording|answering machine|ai|a i(?= or\b|$)|"
    r"artificial intelligence|(?:automated|automatic|virtual|voice) (?:assistant|system|voice))s?\b"
    r"(?! room)"
)

_ENGLISH = (
    # "I am talking to a man outside" is a report, and so is "he cannot talk to the man".
    rf"{_CANNOT_EN}\b(?:speak|talk|chat) (?:to|with) (?:an? |some )?"
    rf"(?:real |actual |live |proper |human )*(?:{_PERSON_EN}|man|woman)\b",
    rf"{_CANNOT_EN}\b(?:speak|talk|chat|have a word) (?:to|with) (?:an? |the |some |your )?"
    rf"(?:real |actual |live |proper |human )*(?:{_ROLE_EN}|{_SERVICE_EN})\b",
    r"\b(?:ask(?:ed|ing)?|looking) (?:you )?for (?:an? )?(?:real )?"
    r"(?:person|human|operator|agent|representative)\b",
    rf"\bin touch with (?:an? |the |your )?(?:real )?(?:{_PERSON_EN}|{_ROLE_EN})\b",
    r"\b(?:can|could|let|have|get) (?:someone|somebody|anyone|anybody|(?:an?|the|your) \w+)"
    r"(?: \w+){0,3} (?:talk|speak) (?:to|with) (?:me|us)\b|\bhuman voice\b",
    rf"\bhave a word with (?:an? )?(?:real |actual )?{_PERSON_EN}\b",
    r"\b(?:want|need|like) (?:to )?(?:talk|speak) (?:real )?(?:person|human|operator)\b",
    rf"\b(?:real|actual|live|proper) (?:{_PERSON_EN}|{_ROLE_EN})\b"
    r"(?! (?:is |are |has been )?(?:hurt|injured|trapped|stuck|bleeding|unconscious|in here))",
    r"\b(?:someone|somebody|anyone|anybody) (?:real|human)\b",
    r"\bhuman (?:being|operator|agent|please|now)\b|^human$|\b(?:want|need) humans?\b",
    r"\ba human(?= (?:to|on|who|here|there|instead|not|and|can|help|talk|speak|answer|i can)\b|$)",
    rf"\b(?:get|give|put|connect|transfer|pass|hand|hook|switch|redirect|forward|patch) "
    r"(?:me|us) (?:please )?(?:through |over |up |on )?"
    rf"(?:to |with )?(?:an? |the |some |your )?(?:{_PERSON_EN}|{_ROLE_EN})\b"
    r"(?! (?:to|who can) (?:open|help|get|fix|come))",
    rf"\b(?:transfer|connect|put through) (?:to|with) (?:an? |the )?(?:{_PERSON_EN}|{_ROLE_EN})\b",
    r"\b(?:put|connect|transfer|pass|hand|hook|switch|redirect|forward|patch) (?:me|us) "
    rf"(?:please )?(?:through |over |on )?(?:to|with) (?:an? |the |some |your )?{_SERVICE_EN}\b",
    r"\b(?:connect|transfer|patch|put) (?:me|us) (?:through|over)(?= to\b| please| now|$)",
    r"\b(?:connect|transfer) (?:me|us)(?: please| now)?$|\btransfer (?:this|the|my) call\b",
    r"\b(?:i|we|id|wed) (?:want|need|would like|like|d like) to be "
    r"(?:transferred|connected|put through)\b(?! to (?:oxygen|my)\b)",
    r"\bcan (?:i|we) (?:be|get) (?:transferred|connected|put through)\b",
    rf"\b(?:get|put) (?:an? |the )?(?:real |actual |live )?(?:{_PERSON_EN}|{_ROLE_EN}) on "
    r"(?:the )?(?:phone|line)\b",
    rf"\bput (?:an? |your )?(?:real |actual |live )?(?:{_PERSON_EN}|{_ROLE_EN}) on"
    r"(?: please| now)?$",
    rf"^(?:(?:hello|hi|hey|yes|ok|okay|please) )*(?:an? |the )?{_ROLE_EN}(?: please| now)?$",
    rf"\b{_ROLE_EN} please$|^(?:(?:hello|hi|hey|yes|ok|okay|no) )*(?:an? )?person please$",
    r"\b(?:want|need|(?:can|could|may) i (?:have|get)) (?:an? |the )?"
    r"(?:person|operator|agent|representative|dispatcher)(?: please| now)?$",
    r"\b(?:dont|don t|do not|didnt) want (?:to (?:talk|speak) (?:to|with) )?"
    rf"(?:an? |this |the |any )?{_MACHINE_EN}",
    rf"\b(?:stop|hate|tired of|sick of|not) (?:(?:talking|speaking) (?:to|with) )?(?:to |with )?"
    rf"(?:an? |this |these ){_MACHINE_EN}",
    rf"\b(?:talk|speak) (?:to|with) (?:an? |this ){_MACHINE_EN}",
    r"\b(?:enough (?:of|with)|done with|tired of|sick of|fed up with) "
    rf"(?:(?:talking|speaking) (?:to|with) )?(?:the |this |these |your )?{_MACHINE_EN}",
    rf"\b(?:youre|you are) (?:just |only )?(?:an? )?{_MACHINE_EN}",
    r"\bthis is (?:just |only )?an? (?:robot|bot|recording|answering machine)"
    r"(?: (?:isnt it|isn t it|is it not|right|then))?$",
    rf"\b(?:hate|(?:talking|speaking) (?:to|with)) {_MACHINE_EN}|^no (?:more )?{_MACHINE_EN}",
    r"\b(?:this|you|youre|you are) (?:is not|isnt|isn t|are not|arent|aren t|not) "
    r"(?:an? )?(?:real |actual )?(?:person|human)\b",
    r"\b(?:are you|is this|am i (?:talking|speaking) (?:to|with)) (?:an? )?"
    rf"(?:real person|human|person|{_MACHINE_EN})",
    r"\b(?:anyone|anybody|someone|somebody|person|people|human|operator)(?: else)?"
    r"(?: there| here)? (?:i|we) (?:can|could) (?:talk|speak)\b",
    r"\b(?:wheres?|where is|is there) (?:the |an? )?(?:operator|agent|representative|dispatcher)"
    r"(?: there| please| here)?$",
    r"\bcan (?:a|the) person (?:please )?(?:take over|come on|answer|pick up|help me)\b",
    r"\bis (?:anyone|anybody|someone|somebody)(?: there)? (?:an? )?(?:human|person)\b",
    r"\b(?:someone|somebody|anyone|anybody) to (?:talk|speak) (?:to|with)\b",
    r"\bcan (?:someone|somebody|anyone|anybody|a person) (?:please )?(?:talk|speak) "
    r"(?:to|with) me\b",
)

_ART_ES = r"(?:una? |el |la |los |las |su |alguna? |otra? )?"
_PERSONA_ES = (
    r"(?:persona|humano|humana|ser humano|alguien|operadora?|operari[oa]|emplead[oa]|agente|"
    r"responsable|tecnico|encargado|encargada|supervisora?|jef[ea]|gerente)"
)
# "Llame a los bomberos" asks for help, "hablar con los bomberos" for a person on the line.
_SERVICIO_ES = (
    r"(?:bomberos?|policia|ambulancia|medic[oa]|doctora?|porter[oa]|conserje|vigilante|guardia|"
    r"seguridad|recepcion|empresa|compania|soporte|mantenimiento|central(?:ita)?)"
)
_SABE_ES = r"(?<!no puedo )(?<!no puede )(?<!acabo de )(?<!acaba de )(?<!acabamos de )"
_MAQUINA_ES = (
    r"(?:(?:una )?(?:maquina|grabacion|inteligencia artificial|ia)|"
    r"(?:un )?(?:robot|contestador|asistente (?:automatico|virtual)))(?:s|es)?\b"
)

_SPANISH = (
    rf"{_SABE_ES}\b(?:hablar|comunicarme) (?:ya |ahora )?con {_ART_ES}"
    rf"(?:{_PERSONA_ES}|{_SERVICIO_ES})\b",
    r"\b(?:hablar|comunicarme) (?:operadora?|humano|persona)\b",
    r"\b(?:alguien|persona|humano|operadora?) con (?:el |la )?(?:quien|que)(?: \w+){0,2} hablar\b",
    rf"\bque (?:me )?(?:hable|conteste|atienda) {_ART_ES}{_PERSONA_ES}\b",
    rf"\bque {_ART_ES}{_PERSONA_ES} (?:me hable|hable conmigo)\b",
    r"\bdonde esta (?:el|la) (?:operadora?|agente)$",
    rf"\bque se ponga (?:al telefono |ya )?{_ART_ES}{_PERSONA_ES}\b|\btransfi[ea]r[ea]me\b",
    r"\b(?:paseme|pasenme|pasame|pongame|ponme|comuniqueme|comunicame|conecteme|conectame|"
    rf"transfierame|derivame) (?:ya |ahora |por favor )?(?:(?:con |a )?{_ART_ES}{_PERSONA_ES}|"
    rf"con {_ART_ES}{_SERVICIO_ES})\b",
    r"\bme (?:puedes? |pueden |podria[ns]? |podria )?(?:pas(?:ar?|as|ais|an|en?)|"
    r"pon(?:er?|es|en|gan?)|comuni(?:car?|cas|can|quen?)|conect(?:ar?|as|an|en?)|"
    rf"transf(?:erir|iere[ns]?|ieran?)) (?:con|a) {_ART_ES}(?:{_PERSONA_ES}|{_SERVICIO_ES})\b",
    rf"\b(?:pasarme|ponerme|conectarme|transferirme) (?:con|a) {_ART_ES}{_PERSONA_ES}\b",
    r"\b(?:persona|humano|alguien) (?:real|de verdad|de carne)\b|\bser humano\b",
    r"\bme (?:puede |pueda |podria )?(?:atender|atienda|atiende|conteste) "
    rf"{_ART_ES}{_PERSONA_ES}\b|\batenderme {_ART_ES}{_PERSONA_ES}\b",
    r"\b(?:operadora?|agente|persona|voz|trato) human[oa]\b|\balgun humano\b",
    r"\bhay un humano(?= (?:ahi|con quien|disponible|por favor)|$)",
    rf"\bno me (?:pongan?|pasen?|pongas|pases) (?:mas )?con (?:la |el |este |esta )?{_MAQUINA_ES}",
    r"\batencion (?:humana|personal|al cliente)\b",
    r"^(?:una? |el |la )?(?:operadora?|agente|humano)(?: por favor)?$",
    r"\b(?:operadora?|un humano|un agente) por favor$|^(?:con )?(?:una )?persona por favor$|"
    r"^por favor (?:con )?una persona$",
    r"\b(?:quiero|quisiera|necesito|prefiero|deme|dame) (?:a )?"
    r"(?:un humano|una? operadora?|un agente|una persona(?: por favor| ya| ahora)?$)\b",
    rf"\bno (?:quiero )?(?:hablar )?(?:mas )?(?:con )?{_MAQUINA_ES}",
    rf"\b(?:eres|es usted|usted es|esto es|es esto|estoy hablando con) {_MAQUINA_ES}",
    rf"\bes {_MAQUINA_ES} esto\b",
    rf"\b(?:hart[oa]s?|cansad[oa]s?) de (?:hablar con )?(?:la |el |esta |este )?{_MAQUINA_ES}",
    r"\b(?:eres|es usted) (?:una persona|un humano|humano|humana)\b",
)

# 人工呼吸 is artificial respiration and 有人工作 somebody at work: no one is asked for.
_MANUAL_ZH = r"人工(?![作呼智湖河岛島草])"
_STAFF_ZH = (
    rf"(?:{_MANUAL_ZH}|真人|客服|活人|接线员|接線員|话务员|話務員|坐席|座席|工作人员|工作人員)"
)
_HEAD_ZH = r"(?:值班人员|值班人員|领导|領導|经理|經理|主管|老板|老闆|负责人|負責人)"
_ONE_ZH = r"(?:一?[个個位名])?"
_WITH_ZH = r"[跟和与與同]"
_MACHINE_ZH = r"(?:机器|機器|机械人|機械人|电脑|電腦)"
_TALK_ZH = r"(?:说|說|讲|講|通话|通話|谈|談|聊|对话|對話|沟通|溝通)"

_CHINESE = (
    rf"(?<!主)[转轉接找搵揾叫要换換]一?下?(?:到|给我?|給我?|你们|你們)?的?{_ONE_ZH}{_STAFF_ZH}",
    rf"[请請]{_ONE_ZH}(?:真人|客服|接线员|接線員|话务员|話務員)",
    rf"(?:^|[要想我])[找叫]一?下?(?:你们|你們)?的?{_ONE_ZH}{_HEAD_ZH}",
    r"^(?:人工|真人|客服|服务|服務)+[吧啊呢]?$",
    rf"[跟和与與同](?:你们|你們)?的?{_ONE_ZH}(?:{_MANUAL_ZH}|真人|活人|真的人|客服|接线员|接線員).{{0,3}}"
    rf"{_TALK_ZH}",
    rf"(?<!不)[想要能以][跟和与與同](?:你们|你們)?的?{_ONE_ZH}(?:人|工作人员|工作人員).{{0,1}}{_TALK_ZH}",
    rf"[叫找让讓请請派换換喊要](?:你们|你們)?的?{_ONE_ZH}人[来來嚟]?[跟和与與同]我.{{0,2}}{_TALK_ZH}",
    rf"找一?[个個位]人.{{0,2}}{_TALK_ZH}",
    rf"[叫找让讓请請](?:你们|你們)?的?{_ONE_ZH}(?:{_STAFF_ZH}|{_HEAD_ZH}|人)[来來嚟]?[接聽听](?:一下)?(?:电话|電話|听|聽)",
    rf"[叫找让讓请請](?:你们|你們)?的?{_ONE_ZH}人[来來嚟]?接(?:吧|一下|$)",
    rf"(?:不想|不要|别|別|唔想|唔要|唔好)再?(?:跟|和|与|與|同|用|拿|听|聽|[给給]我+)?{_MACHINE_ZH}",
    rf"有(?:没有|沒有|冇)?(?:真人|{_MANUAL_ZH})|有[没沒]有活人|[要找][个個]?真的人",
    rf"有(?:没有|沒有|冇)人.{{0,3}}{_WITH_ZH}我.{{0,2}}{_TALK_ZH}",
    rf"有人(?:能|可以|肯){_WITH_ZH}我.{{0,2}}{_TALK_ZH}",
    # "The staff told me to wait" is a report: somebody must be made to speak.
    rf"[让讓请請叫要找](?:你们|你們)?的?{_ONE_ZH}(?:{_STAFF_ZH}|{_HEAD_ZH}).{{0,2}}{_WITH_ZH}我.{{0,2}}{_TALK_ZH}",
    rf"[想要能以]{_WITH_ZH}(?:你们|你們)?的?{_ONE_ZH}{_HEAD_ZH}.{{0,2}}{_TALK_ZH}",
    r"[换換]一?[个個]人(?:[吗嗎吧来來跟和听聽]|$)|[转轉]接(?![头頭口])",
    r"[你您](?:是不是|[是係])[个個]? ?(?:a ?i|人工智能|语音|語音|智能)",
    r"[你您][是係]不?[是係]?(?:真人|真的人|机器|機器|电脑|電腦|人工|人[吗嗎]|人还是|人還是|人$)",
    r"(?:[是係]|係咪)(?:真人|活人|人工|录音|錄音|机器人|機器人)[吗嗎啊呀吧么麼]",
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
