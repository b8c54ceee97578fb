"""How much an utterance speaks for each scenario: whole cues first, single words second.

A cue counts in full where its words stand side by side; what is left adds a little by BM25 over the
words of all cues. A cue behind a denial ("no smoke, no fire") counts for nothing, for that is what
people answer when they are asked about dangers.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from callflow.language.sop_words import MAX_CHARS, is_chinese, normalize, stem, tokens
from callflow.retrieval.corpus import Corpus

_COMMON_WORDS = """
a an and are as at be been but by can do does for from get had has have he her here hers him his
i im in is it its just keep keeps lift elevator me my now of off on or our out please she so some
that the their them then there theres they this to up us was we were what when where which who will
with you your hello yes no not all any very really
al ascensor con de del dentro e el ella en es esta estamos estan estoy fuera ha han hay he la las le
lo los me mi muy no nos o para pero por que se si sin su sus te un una y ya favor
"""
_STOP = {stem(word) for word in _COMMON_WORDS.split()} | {
    "电梯", "我们", "我在", "一个", "现在", "有人", "里面",
}  # fmt: skip

_DENYING_WORDS = """
no not none without isnt arent dont doesnt cant cannot didnt never nobody nobodys nothing neither
nor wasnt hasnt sin ni ningun ninguna nadie nada tampoco
"""
_DENIALS = frozenset(_DENYING_WORDS.split())
# What may stand between a denial and the thing denied: "can't see any smoke", "no hay humo".
# "There is" is not among them: "no there is smoke" denies something else, and reports a danger.
_SMALL_WORDS = """
any see smell hear have got sign of the a is are been real one ones other more visible
hay veo huelo oigo de ningun ninguna tengo tenemos
"""
_BETWEEN = frozenset(_SMALL_WORDS.split())
# "And" does not carry a denial on: "nobody hurt and smoke coming in".
_JOINING = frozenset(("or", "nor", "ni", "o"))
_ZH_DENIAL = r"(?:没有|没|无|并没|不是|未)(?:看到|看见|闻到|发现|听到|人|什么|任何|觉得|感到)?"
_ZH_DENIAL_WITHIN = re.compile(r"没|无|不")
# To deny that these are there is to report a danger.
_LIVED_ON_WORDS = """
breath breathe breathing air pulse heartbeat inhaler insulin epipen pills tablets medicine oxygen
feeling respira respirar respiracion aire pulso inhalador insulina azucar medicina
"""
_LIVED_ON = {stem(word) for word in _LIVED_ON_WORDS.split()} | {"呼吸", "胰岛素", "氧气", "脉搏"}
_SEVERAL: Final = 3
_ZH_DENIED = re.compile(rf"{_ZH_DENIAL}$")
_CLAUSE_ENDS = re.compile(r"[,.;:!?¿¡…]")
_BM25_K1, _BM25_B = 1.2, 0.4

# Two unusual words. Below it an opening such as "hello are you there" says nothing.
CLEAR_SCORE: Final = 4.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for one scenario. `cue` is true when a whole cue was heard."""

    score: float = 0.0
    cue: bool = False


class CueIndex:
    """Scores utterances against the cues of every scenario. Built once, then read only."""

    def __init__(self, cues: Mapping[str, Iterable[str]]) -> None:
        """Take the cues by scenario id, in any language."""
        bags: dict[str, Counter[str]] = {name: Counter() for name in cues}
        self._phrases: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        self._characters: list[tuple[str, str]] = []
        for scenario, phrases in cues.items():
            for phrase in phrases:
                self._add(scenario, normalize(phrase), bags[scenario])
        self._idf = _idf(bags)
        self._postings = _postings(bags, self._idf)

    def _add(self, scenario: str, phrase: str, bag: Counter[str]) -> None:
        found = tokens(phrase)
        if not found:
            return
        bag.update({token for token in found if token not in _STOP})
        if is_chinese(phrase):
            self._characters.append((phrase, scenario))
        else:
            self._phrases[found[0]].append((tuple(found), scenario))

    def score(self, utterance: str) -> dict[str, Evidence]:
        """Return the evidence by scenario; scenarios with none are left out."""
        text = normalize(utterance)
        heard = tokens(text)
        denied = _denied(utterance) if len(heard) == len(text.split()) else set()
        scores: dict[str, float] = defaultdict(float)
        cued: set[str] = set()
        best: dict[tuple[str, int], float] = {}
        for index, scenario, length, weight in self._matches(text, heard, denied):
            place = (scenario, index)
            # "stuck in the lift" contains "stuck": the longer cue at one place is the one meant.
            best[place] = max(best.get(place, 0.0), weight + 0.5 * length)
            cued.add(scenario)
        for (scenario, _), weight in best.items():
            scores[scenario] += weight
        for index, token in enumerate(dict.fromkeys(heard)):
            if index not in denied and not _only_denied(token, heard, denied):
                for scenario, weight in self._postings.get(token, ()):
                    scores[scenario] += weight
        return {name: Evidence(score, name in cued) for name, score in scores.items()}

    def _matches(
        self, text: str, heard: list[str], denied: set[int]
    ) -> Iterable[tuple[int, str, int, float]]:
        for index, token in enumerate(heard):
            for phrase, scenario in self._phrases.get(token, ()):
                if index not in denied and tuple(heard[index : index + len(phrase)]) == phrase:
                    yield index, scenario, len(phrase), self._weight(phrase)
        for characters, scenario in self._characters if is_chinese(text) else ():
            at = text.find(characters)
            while at >= 0 and _ZH_DENIED.search(text[max(0, at - 5) : at]):
                at = text.find(characters, at + 1)
            if at >= 0:
                yield at, scenario, len(characters), self._weight(tuple(tokens(characters)))

    def _weight(self, phrase: tuple[str, ...]) -> float:
        known = [self._idf.get(token, 0.0) for token in phrase]
        return 2.0 + max(known, default=0.0)


_NAMED = {"fire", "smoke", "water", "flames", "fuego", "humo", "agua", "llamas"}
"""What callers are asked about: who denies it says nothing of it, whatever else it may mean."""


class DangerCues:
    """Hears the key phrases of what puts life at risk, and what a caller says is not there."""

    def __init__(self, corpus: Corpus) -> None:
        """Take the key phrases of a corpus; those of its grave topics tell of danger."""
        cues: dict[str, list[str]] = {topic: [] for topic in corpus.groups}
        for example in corpus.examples:
            if example.cue and example.topic in cues:
                cues[example.topic].append(example.text)
        self._grave = corpus.grave
        self._index = CueIndex(cues)
        phrases = [normalize(cue) for topic in cues if topic in self._grave for cue in cues[topic]]
        lacking = {each for each in phrases if _lacks(each)}
        lived_on = {tokens(each)[place] for each in lacking for place in _denied(each)} | _LIVED_ON
        self._words = (_names_of_danger(cues, self._grave) - lived_on - _STOP) | set(
            map(stem, _NAMED)
        )
        chinese = {each for each in phrases if is_chinese(each)} - lacking
        longest = sorted((each for each in chinese if each not in _LIVED_ON), key=len, reverse=True)
        either = "|".join(map(re.escape, longest)) or r"(?!)"
        self._denied_zh = re.compile(rf"{_ZH_DENIAL}(?:{either})")

    def heard(self, utterance: str) -> tuple[str, ...]:
        """Return the scenarios of which a whole cue was clearly heard and not denied, sorted."""
        found = self._index.score(utterance).items()
        return tuple(
            sorted(
                name
                for name, evidence in found
                if name in self._grave and evidence.cue and evidence.score >= CLEAR_SCORE
            )
        )

    def without_denied(self, utterance: str) -> str:
        """Return `utterance` without the dangers that it denies: "stuck no smoke" gives "stuck".

        Where the lack of something is the danger ("not breathing", "no insulin"), it stays.
        """
        if is_chinese(utterance):
            return self._denied_zh.sub(" ", utterance).strip()
        words = normalize(utterance).split()
        gone: set[int] = set()
        for place in _denied(utterance):
            if stem(words[place]) in self._words:
                gone.update(range(_denial_before(words, place), place + 1))
        if not gone:
            return utterance
        left = [word for place, word in enumerate(words) if place not in gone]
        # "No, no smoke and nothing": what is left says nothing either.
        known = any(stem(word) not in _STOP and word not in _DENIALS for word in left)
        return " ".join(left) if known else ""


def _names_of_danger(cues: Mapping[str, Iterable[str]], grave: Collection[str]) -> set[str]:
    """Return the words that name a danger by themselves: no other topic's cues have them, and one
    cue is that word alone, or several cues turn on it ("smoke", "water")."""
    named: set[str] = set()
    bags = {topic: [tokens(normalize(cue)) for cue in phrases] for topic, phrases in cues.items()}
    spread = Counter(token for bag in bags.values() for token in {t for cue in bag for t in cue})
    for topic in grave:
        bag = bags.get(topic, [])
        turns = Counter(token for cue in bag for token in set(cue))
        alone = {cue[0] for cue in bag if len(cue) == 1}
        several = {token for token, count in turns.items() if count >= _SEVERAL}
        named |= {token for token in alone | several if spread[token] == 1}
    return named


def _lacks(phrase: str) -> bool:
    """True for a key phrase that is itself a denial: "not breathing", 没有呼吸."""
    return bool(_DENIALS & set(phrase.split())) or _ZH_DENIAL_WITHIN.search(phrase) is not None


def _denial_before(words: list[str], place: int) -> int:
    """Return the place of the word that denies the one at `place`, or of the "or" that joins it."""
    before = place - 1
    while before > 0 and words[before] in _BETWEEN:
        before -= 1
    return before


def _idf(bags: Mapping[str, Counter[str]]) -> dict[str, float]:
    spread = Counter(token for bag in bags.values() for token in bag)
    count = len(bags)
    return {token: math.log(1 + (count - n + 0.5) / (n + 0.5)) for token, n in spread.items()}


def _postings(
    bags: Mapping[str, Counter[str]], idf: Mapping[str, float]
) -> dict[str, list[tuple[str, float]]]:
    lengths = {name: sum(bag.values()) for name, bag in bags.items()}
    mean = (sum(lengths.values()) / len(lengths) if lengths else 0.0) or 1.0
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, bag in bags.items():
        norm = _BM25_K1 * (1 - _BM25_B + _BM25_B * lengths[name] / mean)
        for token, count in bag.items():
            found[token].append((name, idf[token] * count * (_BM25_K1 + 1) / (count + norm)))
    return found


def _denied(utterance: str) -> set[int]:
    """Return the places of words that a denial takes back; the words that deny are not among them.

    A denial ends with its clause, where the recognition has heard one: "no, hay humo".
    """
    places: set[int] = set()
    before = 0
    for clause in _CLAUSE_ENDS.split(utterance[:MAX_CHARS]):
        words = normalize(clause).split()
        places.update(before + place for place in _denied_in(words))
        before += len(words)
    return places


def _denied_in(words: list[str]) -> Iterator[int]:
    """Yield the places denied within one clause.

    The denial reaches over small words to the first word of weight, and on over "or".
    """
    for index, word in enumerate(words):
        reaching = word in _DENIALS
        for place in range(index + 1, len(words)):
            if words[place] in _JOINING:
                reaching = word in _DENIALS
            elif not reaching or words[place] in _DENIALS:
                break
            elif words[place] not in _BETWEEN:
                yield place
                reaching = False


def _only_denied(token: str, heard: list[str], denied: set[int]) -> bool:
    return bool(denied) and all(
        place in denied for place, other in enumerate(heard) if other == token
    )
