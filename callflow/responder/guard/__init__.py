"""The guard: what a language model may not say to a caller, whatever it was told or asked."""

from callflow.responder.guard.guard import Guard
from callflow.responder.guard.lexicon import LexiconError

__all__ = ["Guard", "LexiconError"]
