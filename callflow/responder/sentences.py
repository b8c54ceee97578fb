"""Divides text that is still growing into sentences, and joins sentences into one reply; English,
Chinese and Spanish. Pure.

A reply is spoken sentence by sentence while its end is not yet known. A dot alone tells little: it
stands in decimals, times and abbreviations, so it waits for what comes after it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

LONGEST: Final = 240
"""Letters after which a sentence that has no end is taken for babble (about 16 s of speech)."""

_CLOSERS = "\"'”’»）)』」】"
_END = re.compile(rf"[.!?…。！？｡]+[{_CLOSERS}]*")
_WIDE_ENDS = frozenset("。！？｡")
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")
_LAST_WORD = re.compile(r"[^\s¿¡(\"“«]+$")
_ABBREVIATIONS = frozenset(
    (
        *("mr", "mrs", "ms", "dr", "prof", "vs", "etc", "approx", "e.g", "i.e", "a.m", "p.m"),
        *("sr", "sra", "srta", "d", "dña", "ud", "uds", "vd", "vds", "avda", "p.ej", "ej", "ee.uu"),
        *("ee", "a", "p", "st", "dept", "depto", "aprox", "u.s", "u.k", "s.a"),
    )
)
_BEFORE_NUMBERS = frozenset(("no", "nos", "nr", "nº", "n.º", "núm", "tel", "ext", "fl", "min"))
_QUESTION_ENDS = ("?", "？")
_ZH_QUESTION = re.compile(r"[吗呢么][。.]?$")
_INSTRUCTS = re.compile(
    r"""\b(?:please|stay|keep|don['’]?t|do\s+not|never|tell\s+(?:me|us)|say|press|hold|knock|wait|
        stand|sit|lie|move|call|if\s+you|let\s+(?:me|us)\s+know|go\s+on|breathe|try|listen|
        por\s+favor|qu[ée]d[ae]\w*|mant[eé]n\w*|no\s+\w+[ea](?:s|n)?\b|d[ií]ga?\w*|espere\w*|
        espera|al[ée]j\w+|pulse\w*|siga\w*|si\s+(?:me|puede|nota|hay|se)|respire\w*|si[ée]nt\w+|
        agách\w+|salg[ao]\w*|ll[aá]m[ae]\w*|ap[aá]rt\w+|c[uú]br\w+|contin[uú]e\w*)""",
    re.IGNORECASE | re.VERBOSE,
)
_ZH_INSTRUCTS = re.compile(r"请|不要|别|如果|保持|留在|告诉我")


_REFERS = re.compile(
    r"""^\W*(?:then|and|but|so|or|after(?:wards)?|next|once|its|those|these|they|them|
        (?:it|that|this)(?!\s+(?:must|sounds?|feels?|seems?))|
        (?:please\s+)?(?:just\s+|only\s+)?(?:do|try|give|take|keep|hold|turn|use|push|pull|move)\s+
        (?:it|that|this|them|so)|luego|entonces|despu[ée]s|y|e|o|pero|as[íi]|eso|esto|[ée]l|ella|
        una\s+vez|h[áa]gal[oa]|h[áa]zl[oa]|int[ée]ntelo|pru[ée]bel[oa]|otra\s+vez)\b|
        \b(?:it|that|them|lo|la|los|las)\s*[.!?]?$|\b(?:slowly|gently|carefully|again)\W*$|
        \b(?:despacio|con\s+cuidado|otra\s+vez)\W*$""",
    re.IGNORECASE | re.VERBOSE,
)
_ZH_REFERS = re.compile(
    r"^\W*(?:然后|接着|再|那|这|它|就|也|但|不过|之后|随后|同时|慢慢|轻轻|小心|试)|(?:它|一下|试试|一点)\W*$"
)


def first_end(text: str, *, final: bool = False) -> int | None:
    """Return where the first sentence of `text` ends, or None while that cannot be told yet.

    `final`: nothing comes after `text`; what stands there then without an end is no sentence of
    ours to end, and None is returned for it too.
    """
    for match in _END.finditer(text):
        if _ends(text, match, final):
            return match.end()
    return None


def split(text: str) -> list[str]:
    """Return all sentences of a whole text, the last one even if it does not end."""
    found: list[str] = []
    rest = text.strip()
    while rest:
        end = first_end(rest, final=True) or len(rest)
        found.append(rest[:end].strip())
        rest = rest[end:].lstrip()
    return found


def asks(sentence: str) -> bool:
    """Return whether a sentence asks for an answer."""
    bare = sentence.rstrip(_CLOSERS + " ")
    return bare.endswith(_QUESTION_ENDS) or bool(_ZH_QUESTION.search(bare))


def leads_on(sentence: str) -> bool:
    """Return whether a caller knows what to do after it: it asks, or it tells them to do something.

    A rough look at words, in three languages: it may say no for an odd instruction, and then the
    next question of the procedure follows, which never hurts.
    """
    if asks(sentence):
        return True
    return bool(_INSTRUCTS.search(sentence) or _ZH_INSTRUCTS.search(sentence))


def goes_on(before: str, sentence: str) -> bool:
    """Return whether a sentence may only be the second half of the one before it.

    "Now push!" and "the doors apart" are each harmless.
    """
    ended = bool(_END.search(before[-4:]))
    few = len(plain(before)) < 4 if _WIDE.search(before) else len(before.split()) < 4
    return not ended or few or sentence[:1].islower()


def refers_back(sentence: str) -> bool:
    """Return whether a sentence seems to speak of what another before it has named.

    "Do it slowly" means nothing, or something else, once what it refers to has been left out.
    """
    if sentence[:1].islower():
        return True
    return bool(_REFERS.search(sentence) or _ZH_REFERS.search(sentence))


def plain(text: str) -> str:
    """Return the words alone, one space between them: no case, no signs, no full-width letters."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join("".join(char if char.isalnum() else " " for char in folded).split())


def contains(words: str, part: str) -> bool:
    """Return whether `part` stands in `words` as whole words; both `plain`, neither empty.

    Chinese has no spaces between its words, so there any letters in a row will do.
    """
    if not part:
        return False
    if _WIDE.search(part):
        return part.replace(" ", "") in words.replace(" ", "")
    return f" {part} " in f" {words} "


def joined(sentences: Sequence[str], before: str = "") -> list[str]:
    """Return the sentences as pieces, each with the space that divides it from what went before.

    `before` is what the caller has already heard of this reply.
    """
    pieces: list[str] = []
    last = before[-1:]
    for sentence in sentences:
        space = " " if last and not last.isspace() and not _touching(last, sentence) else ""
        pieces.append(space + sentence)
        last = sentence[-1:]
    return pieces


def _touching(last: str, sentence: str) -> bool:
    return bool(_WIDE.match(last) and _WIDE.match(sentence))


def heard_prefix(sentences: Sequence[str], heard: str) -> int | None:
    """Return how many of the sentences `heard` consists of, or None when it holds anything else."""
    so_far = ""
    for count, piece in enumerate(joined(sentences)):
        if so_far == heard:
            return count
        so_far += piece
    return len(sentences) if so_far == heard else None


def remaining(sentences: Sequence[str], heard: str) -> list[str]:
    """Return the sentences that are still to be said after `heard`, whole ones only.

    A sentence that broke off in the middle is said again as a whole: half an instruction is none.
    """
    count = heard_prefix(sentences, heard)
    if count is not None:
        return list(sentences[count:])
    return [sentence for sentence in sentences if sentence not in heard]


def _ends(text: str, match: re.Match[str], final: bool) -> bool:
    if any(char in _WIDE_ENDS for char in match.group()):
        return True
    rest = text[match.end() :]
    if not rest:
        # "e.g." at the very end may be an abbreviation, but then nothing follows it.
        return final
    if not rest[0].isspace():
        # "3.5", "a.m", "example.org"; but "Stop!¿Está bien?" and "好的.请" are two sentences.
        return rest[0] in "¿¡[" or bool(_WIDE.match(rest))
    if match.group()[0] in "!?":
        return True
    return _dot_ends(text[: match.start()], match.group(), rest.lstrip(), final)


def _dot_ends(before: str, dots: str, after: str, final: bool) -> bool:
    if not after and not final:
        return False
    last = _LAST_WORD.search(before)
    word = last.group().casefold() if last else ""
    if len(dots.rstrip(_CLOSERS)) > 1 or "…" in dots:
        # "Well... stay where you are."
        return not after[:1].islower()
    if word in _ABBREVIATIONS:
        return not after
    if word in _BEFORE_NUMBERS:
        return not after[:1].isdigit()
    # "1. Stay where you are" is the number of a list, not a sentence.
    return bool(word) and not (word.isdigit() and before.strip() == word)
