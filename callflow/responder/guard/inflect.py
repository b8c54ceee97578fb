"""The forms of a verb that a lexicon names by its stem, as one piece of a regular expression.

Forms that no grammar knows come out as well ("openned"): a guard loses nothing by knowing them.
"""

from __future__ import annotations

import re
from typing import Final

_CONSONANTS: Final = "bcdfghjklmnpqrstvwxz"
# Accents are gone by the time these are looked for. Participles are left out, for "the doors are
# closed" is a state and nothing that is asked of anybody.
_SPANISH_ENDINGS: Final = """
o as a amos ais an es e emos eis en imos is i iste io isteis ieron aste asteis aron
are aras ara aremos areis aran ere eras era eremos ereis eran ire iras ira iremos ireis iran
aria arias ariamos arian eria erias eriamos erian iria irias iriamos irian ar er ir ad ed id
ando iendo yendo ase asen iese iesen iera ieran aba abas abamos aban ia ias iamos ian
"""
_SPANISH_ENCLITICS: Final = """
me te se lo la los las le les nos os melo mela melos melas selo sela selos selas
telo tela telos telas noslo nosla noslos noslas
"""


def english(stem: str) -> str:
    """Return an alternation of the forms of an English verb: `pry` gives pry, pries, prying …"""
    forms = {stem}
    if stem.endswith("e"):
        forms |= {stem + "s", stem + "d", stem[:-1] + "ing"}
    elif stem.endswith("y") and stem[-2:-1] in _CONSONANTS:
        forms |= {stem[:-1] + "ies", stem[:-1] + "ied", stem + "ing"}
    else:
        forms |= {stem + "s", stem + "es", stem + "ed", stem + "ing"}
        if stem[-1] in _CONSONANTS:
            forms |= {stem + stem[-1] + "ed", stem + stem[-1] + "ing"}
    return "|".join(sorted((re.escape(form) for form in forms), key=len, reverse=True))


def spanish(stem: str) -> str:
    """Return what matches the forms of a Spanish verb, with its pronouns: `forz`, `fuerc` …"""
    endings = "|".join(sorted(_SPANISH_ENDINGS.split(), key=len, reverse=True))
    enclitics = "|".join(sorted(_SPANISH_ENCLITICS.split(), key=len, reverse=True))
    return f"{re.escape(stem)}(?:{endings})(?:{enclitics})?"
