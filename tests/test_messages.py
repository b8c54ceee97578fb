"""Waking: a message that carries the CallSid alone, and a broker that may be gone at any time."""

from __future__ import annotations

import base64
import json
import time

import pytest

from callflow.celery import RUN_TURN, TAKEOVER, TURNS, app, use_broker
from callflow.lab.embedded_server import EmbeddedServer
from callflow.messages import Wake, wake
from callflow.redis.client import connect
from tests.parts import SID, Parts

BOUND_S = 3.0
"""Twilio waits, and so does a caller; kombu's own back-off took six seconds."""


def _message(parts: Parts, queue: str) -> dict[str, object]:
    waiting = parts.client.lrange(queue, 0, -1)
    assert len(waiting) == 1
    message: dict[str, object] = json.loads(str(waiting[0]))
    return message


@pytest.mark.parametrize(("takeover", "queue"), [(False, TURNS), (True, TAKEOVER)])
def test_a_message_carries_the_call_sid_and_nothing_that_was_said(
    parts: Parts, takeover: bool, queue: str
) -> None:
    parts.intake.open(SID)
    parts.store.record_utterance(SID, 1, "very private words")

    assert wake(SID, takeover=takeover) is Wake.SENT

    message = _message(parts, queue)
    body = base64.b64decode(str(message["body"])).decode()
    assert json.loads(body)[0] == [SID]
    assert message["content-type"] == "application/json"
    assert "private" not in json.dumps(message) + body


def test_the_message_is_the_one_that_celery_would_send(parts: Parts, redis_url: str) -> None:
    wake(SID)
    ours = _message(parts, TURNS)
    parts.client.delete(TURNS)
    with app.connection_for_write(redis_url) as connection:
        app.send_task(RUN_TURN, args=(SID,), queue=TURNS, ignore_result=True, connection=connection)
    celerys = _message(parts, TURNS)

    for part in ("headers", "properties"):
        assert _without_chance(ours[part]) == _without_chance(celerys[part])
    assert {**ours, "headers": 0, "properties": 0} == {**celerys, "headers": 0, "properties": 0}


def _without_chance(part: object) -> dict[str, object]:
    """All but the ids, and who sent it to which (unused) reply queue."""
    assert isinstance(part, dict)
    by_chance = {"id", "root_id", "correlation_id", "delivery_tag", "origin", "reply_to"}
    return {name: value for name, value in part.items() if name not in by_chance}


def test_a_broker_that_is_gone_costs_the_caller_no_wait_and_no_word(
    own_server: EmbeddedServer, parts: Parts
) -> None:
    use_broker(own_server.url)
    own_server.stop()
    parts.intake.open(SID)

    began = time.monotonic()
    stored, woken = parts.intake.hear(SID, 1, "stuck")

    assert time.monotonic() - began < BOUND_S
    assert (stored.result, woken) == ("ok", Wake.LOST)
    assert parts.record().owed


def test_a_broker_that_comes_back_is_used_again(own_server: EmbeddedServer) -> None:
    use_broker(own_server.url)
    assert wake(SID) is Wake.SENT
    own_server.kill()
    assert wake(SID) is Wake.LOST
    own_server.restart()

    assert wake(SID) is Wake.SENT
    with connect(own_server.url) as client:
        assert client.llen(TURNS) >= 1


def test_celery_takes_and_sends_json_alone() -> None:
    assert app.conf.accept_content == ["json"]
    assert app.conf.task_serializer == "json"
    assert app.conf.result_backend is None
    assert app.conf.task_acks_late is False
