"""Whole turns on a real server, with the times that a slow model needs."""

from __future__ import annotations

from dataclasses import replace

from callflow.call.record import SopChunk
from callflow.redis.client import Client
from tests.parts import TIMING, FirstWordEngine, Parts
from tests.responder.calls import chunks


class FourQuestions(FirstWordEngine):
    """Retrieves a procedure with four questions for whatever is said."""

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        return chunks()


def patient_parts(client: Client) -> Parts:
    """One process's worth of callflow whose turns may take as long as a real model does."""
    return Parts(client, replace(TIMING, turn_ms=60_000), FourQuestions())
