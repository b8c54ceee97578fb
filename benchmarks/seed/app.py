"""The seed's Celery app (`celery -A benchmarks.seed.app`): Celery as it comes, results included."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import redis
from celery import Celery
from pydantic import TypeAdapter

from benchmarks.seed.document import Documents
from callflow.call.record import SopChunk
from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import of_library
from callflow.retrieval.engine import Engine, TopicSearch

HEARTBEAT_S = 2.0
"""Every few seconds, says the seed."""

URL = os.environ["BENCHMARKS_SEED_URL"]

app = Celery("seed", broker=URL, backend=URL)

documents = Documents(redis.Redis.from_url(URL, decode_responses=True))
_library = SopLibrary.load(None)
_engine = Engine(_library, TopicSearch(of_library(_library)))
_chunks = TypeAdapter(tuple[SopChunk, ...])


@app.task  # type: ignore[untyped-decorator]
def handle_turn(call_sid: str) -> str:
    """Read the whole conversation, answer what the caller said last, write it all back."""
    document = documents.read(call_sid)
    document["call_state"] = "in_progress"
    document["assigned_worker"] = f"worker-{os.getpid()}"
    document["last_heartbeat"] = time.time()
    documents.write(document)
    with _beating(call_sid):
        said = str(document["conversation_thread"][-1]["content"])
        likely = _engine.score(said).likely
        scenario = document["scenario_type"] or (likely[0][0] if likely else "entrapment_standard")
        if scenario != document["scenario_type"]:
            chunks = _engine.chunks(scenario, "en")
            document["scenario_type"] = scenario
            document["retrieved_sop_chunks"] = _chunks.dump_python(chunks, mode="json")
            documents.write(document)
        reply = said + said
    document["conversation_thread"].append({"role": "assistant", "content": reply})
    document["call_state"] = "pending"
    document["assigned_worker"] = None
    documents.write(document)
    return reply


@contextmanager
def _beating(call_sid: str) -> Iterator[None]:
    """Rewrite the document with a new heartbeat, every two seconds, while the block runs."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(HEARTBEAT_S):
            document = documents.read(call_sid)
            document["last_heartbeat"] = time.time()
            documents.write(document)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
