"""The lexical classifier: the scenario whose cues the caller used, held fast against weak words.

A call that is known to be in danger stays so. Where life is at risk (P1) no words lead down, for an
open door heals nobody; from P2 only clear words that people are free do, and never "a test" or "a
mistake", which somebody may be forced to say.

A danger to life that was clearly heard wins over everything less urgent in the same breath, however
much was said about that: who is stuck with a baby and says that it does not breathe needs the
ambulance first.
"""

from __future__ import annotations

from typing import Final

from callflow.sop.evidence import CueIndex, Evidence
from callflow.sop.library import SopLibrary
from callflow.sop.protocols import DEFAULT_SCENARIO, SILENT_SCENARIO
from callflow.sop.words import normalize

# Two unusual words. Below it an opening such as "hello are you there" says nothing.
CLEAR_SCORE: Final = 4.5
STRONG_SCORE: Final = 9.0
# To take a more urgent scenario for a less urgent one costs seconds; the reverse may cost a life.
_URGENCY_WEIGHT: Final = {"P1": 1.3, "P2": 1.15, "P3": 1.0, "P4": 1.1, "P5": 1.05}
_NONE: Final = Evidence()


class LexicalClassifier:
    """Implements `Classifier` with the cues of a library; the languages share one index.

    Callers mix languages, and a wrong language tag must not hide the word for fire.
    """

    def __init__(self, library: SopLibrary) -> None:
        """Index the cues of all documents (some 10 ms)."""
        documents = library.documents.values()
        self._urgency = {document.id: document.front.urgency for document in documents}
        self._index = CueIndex(
            {
                document.id: [cue for cues in document.front.cues.values() for cue in cues]
                for document in documents
            }
        )

    def classify(self, utterance: str, language: str, current: str | None) -> str:
        """Return the scenario of the call after `utterance`; see `Classifier.classify`."""
        if not normalize(utterance):
            return current or SILENT_SCENARIO
        if current == SILENT_SCENARIO:
            current = None  # a voice is all the evidence it takes against silence
        found = self._index.score(utterance)
        if not found:
            return current or DEFAULT_SCENARIO
        # Scores grow with every word about a subject, and the gravest thing is said in the fewest.
        likely = self._dangers(found) or found
        best = max(likely, key=lambda name: (self._weighed(name, found[name]), name))
        if current is None:
            return best if found[best].cue or found[best].score >= CLEAR_SCORE else DEFAULT_SCENARIO
        return best if self._replaces(best, current, found) else current

    def _dangers(self, found: dict[str, Evidence]) -> list[str]:
        """Return the scenarios with life at risk (P1) of which a whole cue was clearly heard."""
        return [
            name
            for name, evidence in found.items()
            if self._urgency[name] == "P1" and evidence.cue and evidence.score >= CLEAR_SCORE
        ]

    def _weighed(self, scenario: str, evidence: Evidence) -> float:
        return evidence.score * _URGENCY_WEIGHT[self._urgency[scenario]]

    def _replaces(self, best: str, current: str, found: dict[str, Evidence]) -> bool:
        new, old = found[best], found.get(current, _NONE)
        # Most of what is said in mid-call answers our own question: stray words prove nothing.
        if best == current or not new.cue or new.score < CLEAR_SCORE:
            return False
        level, was = self._urgency[best], self._urgency.get(current, "P3")
        if level < was:
            return True
        strong = new.score >= STRONG_SCORE and new.score > 2 * old.score
        if level > was and was in ("P1", "P2"):
            return strong and was == "P2" and level == "P4"
        return strong
