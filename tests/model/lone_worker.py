"""One worker process that runs one turn with a real model: `python -m` it, and kill it."""

from __future__ import annotations

import sys

from callflow.celery import use_broker
from callflow.redis.client import connect
from tests.model.asking import responder
from tests.model.turns import patient_parts


def main(redis_url: str, model_url: str, call_sid: str) -> None:
    """Answer one call once."""
    use_broker(redis_url)
    with connect(redis_url) as client:
        print(patient_parts(client).worker(responder(model_url)).run(call_sid), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
