"""One call as one JSON document under its CallSid, read and written whole."""

from __future__ import annotations

import json
import time
from typing import Any

import redis

COMPLETED_TTL_S = 1800
"""A complete call expires after half an hour."""

STALE_S = 10.0
"""A heartbeat older than this means that the worker is dead."""

Document = dict[str, Any]


class Documents:
    """SET and GET of whole documents. What others wrote in between is overwritten."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client

    def create(self, call_sid: str) -> None:
        """A call was received."""
        self.write(
            {
                "call_sid": call_sid,
                "conversation_thread": [],
                "call_state": "pending",
                "assigned_worker": None,
                "last_heartbeat": None,
                "retrieved_sop_chunks": [],
                "scenario_type": None,
                "created_at": time.time(),
            }
        )

    def read(self, call_sid: str) -> Document:
        """The document. Raises KeyError when there is none."""
        text = self.client.get(call_sid)
        if text is None:
            raise KeyError(call_sid)
        document: Document = json.loads(str(text))
        return document

    def write(self, document: Document, ttl_s: int | None = None) -> None:
        """The whole document, stamped."""
        document["updated_at"] = time.time()
        self.client.set(document["call_sid"], json.dumps(document), ex=ttl_s)

    def say(self, call_sid: str, role: str, text: str) -> None:
        """Append what was said."""
        document = self.read(call_sid)
        document["conversation_thread"].append({"role": role, "content": text})
        self.write(document)

    def complete(self, call_sid: str) -> None:
        """The call is over; its document expires."""
        document = self.read(call_sid)
        document["call_state"] = "complete"
        document["assigned_worker"] = None
        self.write(document, COMPLETED_TTL_S)
