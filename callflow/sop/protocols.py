"""What a turn asks of the procedures: which scenario is this, and which chunks belong to it.

Both are pure functions of their arguments and of the documents loaded at the start, so two workers
with the same documents give the same answer. Better ones replace the lexical ones behind the same
two methods.
"""

from __future__ import annotations

from typing import Final, Protocol

from callflow.call.record import SopChunk

DEFAULT_SCENARIO: Final = "entrapment_standard"
"""Taken when nothing is known: to treat a caller as trapped is the mistake that harms least."""

SILENT_SCENARIO: Final = "silent_open_line"
"""Taken when nobody has said anything yet."""


class Classifier(Protocol):
    """Names the scenario of a call."""

    def classify(self, utterance: str, language: str, current: str | None) -> str:
        """Return a scenario id for a call that now has `current` and hears `utterance`.

        `current` is kept when the utterance gives no clear evidence; a more urgent scenario is
        never left for a less urgent one on weak evidence. Silence is `silent_open_line` while
        nothing is known. `language` is a tag such as `en`, `zh-CN` or `es`.
        """
        ...


class Retriever(Protocol):
    """Finds the parts of the procedure that the reply to one utterance needs."""

    def retrieve(self, utterance: str, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return chunks of the document of `scenario`, best first.

        The `never` chunk and the complete `ask` chunk are always among them (a document that
        asks nothing has no `ask` chunk). A section that is missing in `language` comes in English.
        An unknown scenario is served from the default one.
        """
        ...


def primary_language(tag: str) -> str:
    """Return the part of a language tag that documents are written in: `es-MX` gives `es`."""
    primary = tag.replace("_", "-").split("-", 1)[0].strip().lower()
    # Carriers name spoken Mandarin and Cantonese by their own codes; both read the same text.
    return "zh" if primary in ("cmn", "yue") else primary
