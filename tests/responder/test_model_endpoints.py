"""Real clients against a real server that fails: every failure has a name and an end in time."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from threading import Event

import pytest

from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.responder.model import Failure, Model, ModelError, ModelPrompt, ModelUnusable
from callflow.responder.model_providers import EndpointModel, model
from callflow.responder.model_responder import Breaker, ModelResponder
from callflow.responder.scripted import ScriptedResponder
from callflow.store.breaker import Breakers
from tests.needs import missing
from tests.responder.calls import Forbids, Switch, later, reply
from tests.responder.model_server import (
    FORBIDDEN,
    GOOD,
    Mode,
    ModelServer,
    model_server,
    nobody_there,
)
from tests.waiting import wait_until

PROMPT = ModelPrompt("You speak with a caller.", "What do you say?")
WIRES = ("openai", "anthropic")
FIRST_S, REPLY_S = 0.2, 0.4
"""For endpoints that never answer; those that fail at once get AMPLE_S, however busy we are."""
AMPLE_S = 10.0
LATE_S = 0.5
"""How much later than its deadline a reply may be."""
SLOW: tuple[Mode, ...] = ("slow", "drip", "hang", "mute")
SCRIPT = "Please stay inside and keep away from the doors. Are you inside the lift now?"
SAID = (
    "That sounds frightening. Please stay inside and keep away from the doors. "
    "Is anybody hurt or unwell?"
)


@pytest.fixture(autouse=True, scope="module")
def libraries() -> None:
    """Importing them takes seconds: only where these tests run, not where they are collected."""
    for library in WIRES:
        try:
            importlib.import_module(library)
        except ModuleNotFoundError:
            missing(f"the package {library}", "pip install 'callflow[model]'")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


def at(server: ModelServer | str, wire: str, name: str = "small") -> EndpointModel:
    url = server if isinstance(server, str) else server.url
    found = model(f"{wire}:{name}", f"{url}/v1" if wire == "openai" else url, "key")
    assert isinstance(found, EndpointModel)
    return found


def said(one: Model, first_s: float = AMPLE_S, reply_s: float = AMPLE_S) -> str:
    return "".join(one.stream(PROMPT, reply_s, Event(), first_s=first_s))


def failure_of(
    one: Model, first_s: float = AMPLE_S, reply_s: float = AMPLE_S
) -> tuple[ModelError, float]:
    started = time.monotonic()
    with pytest.raises(ModelError) as raised:
        said(one, first_s, reply_s)
    return raised.value, time.monotonic() - started


def responder(
    *models: Model,
    first_s: float = FIRST_S,
    reply_s: float = REPLY_S,
    breaker: Breaker | None = None,
) -> ModelResponder:
    return ModelResponder(
        models,
        ScriptedResponder(),
        Forbids(),
        breaker or Switch(),
        first_token_s=first_s,
        reply_s=reply_s,
    )


def ample(*models: Model) -> ModelResponder:
    return responder(*models, first_s=AMPLE_S, reply_s=AMPLE_S)


@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_comes_as_it_is_written(server: ModelServer, wire: str) -> None:
    assert said(at(server, wire)) == GOOD
    (asked,) = server.asked
    assert asked["stream"] is True
    assert asked["model"] == "small"
    assert "You speak with a caller." in str(asked)


@pytest.mark.parametrize("wire", WIRES)
def test_the_next_turn_goes_over_the_same_connection(server: ModelServer, wire: str) -> None:
    one = at(server, wire)
    for _ in range(3):
        said(one)
        wait_until(lambda: one.busy == 0, "the line is free again")
    assert server.connections == 1


FAILURES: list[tuple[Mode, Failure]] = [
    ("cut", "cut"),
    ("half_close", "cut"),
    ("too_long", "cut"),
    ("busy", "busy"),
    ("error", "server"),
    ("no_key", "auth"),
    ("no_model", "auth"),
    ("decline", "refused"),
    ("page", "nonsense"),
]


@pytest.mark.parametrize("wire", WIRES)
def test_a_failure_has_a_name_at_once(server: ModelServer, wire: str) -> None:
    found: list[tuple[Mode, Failure]] = []
    for mode, _ in FAILURES:
        server.modes = [mode]
        error, took_s = failure_of(at(server, wire))
        assert took_s < AMPLE_S / 2, mode
        found.append((mode, error.kind))
    assert found == FAILURES
    assert len(server.asked) == len(FAILURES)


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_in_the_middle_of_a_stream_is_the_servers(server: ModelServer, wire: str) -> None:
    server.modes = ["told_error"]
    assert failure_of(at(server, wire))[0].kind in ("server", "busy")


@pytest.mark.parametrize("wire", WIRES)
def test_a_busy_one_tells_when_it_wants_to_be_asked_again(server: ModelServer, wire: str) -> None:
    server.modes = ["busy"]
    error, _ = failure_of(at(server, wire))
    assert (error.retry_after_s, error.status) == (20.0, 429)
    server.retry_after = "Wed, 21 Oct 2015 07:28:00 GMT"
    assert failure_of(at(server, wire))[0].retry_after_s == 0.0


@pytest.mark.parametrize("wire", WIRES)
def test_nobody_at_the_address_is_noticed_at_once(wire: str) -> None:
    with nobody_there() as url:
        error, took_s = failure_of(at(url, wire))
    assert error.kind == "unreachable"
    assert took_s < AMPLE_S / 2


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("mode", "by_s"), [("slow", FIRST_S), ("hang", FIRST_S), ("mute", FIRST_S), ("drip", REPLY_S)]
)
def test_a_deadline_holds_and_the_endpoint_is_hung_up_on(
    server: ModelServer, wire: str, mode: Mode, by_s: float
) -> None:
    server.modes = [mode]
    one = at(server, wire)
    error, took_s = failure_of(one, FIRST_S, REPLY_S)
    assert error.kind == "slow"
    assert by_s <= took_s < by_s + LATE_S
    wait_until(lambda: one.busy == 0, "its thread has ended")
    if server.asked:  # A request that was not sent in time is hung up on before it arrives.
        wait_until(server.hung_up.is_set, "the endpoint is hung up on")


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_of_the_prompt_is_logged(
    server: ModelServer, wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said(at(server, wire))
    server.modes = ["error"]
    failure_of(at(server, wire))
    assert "caller" not in caplog.text
    assert "frightening" not in caplog.text


def test_a_listener_that_goes_away_hangs_up(server: ModelServer) -> None:
    server.modes = ["drip"]
    letters = at(server, "openai").stream(PROMPT, 30.0, Event())
    next(letters)
    letters.close()  # type: ignore[attr-defined]
    wait_until(server.hung_up.is_set, "the endpoint is hung up on")


def test_a_lost_lease_ends_it_and_hangs_up(server: ModelServer) -> None:
    server.modes = ["hang"]
    stop = Event()
    lost_at: list[float] = []

    def lose_lease() -> None:
        # A request that is given up before it was sent is one that no endpoint can see end.
        wait_until(lambda: server.asked, "the endpoint is asked")
        lost_at.append(time.monotonic())
        stop.set()

    threading.Thread(target=lose_lease).start()
    assert list(at(server, "openai").stream(PROMPT, 30.0, stop)) == []
    assert time.monotonic() - lost_at[0] < LATE_S
    wait_until(server.hung_up.is_set, "the endpoint is hung up on")


def test_threads_that_hang_never_pile_up(server: ModelServer) -> None:
    """An endpoint behind which the threads do not wake, as when a name is looked up for ever."""
    from callflow.responder import model_stream

    never = Event()

    def ask(client: object) -> Iterator[str]:
        never.wait(10.0)
        yield ""

    pool = model_stream.ConnectionPool("fake", lambda http: http)
    kinds = []
    for _ in range(model_stream.MOST_REQUESTS + 2):
        with pytest.raises(ModelError) as raised:
            list(model_stream.stream_reply(pool, ask, first_s=0.01, timeout_s=0.01, stop=Event()))
        kinds.append(raised.value.kind)
    assert kinds == ["slow"] * model_stream.MOST_REQUESTS + ["unreachable"] * 2
    never.set()
    wait_until(lambda: pool.busy == 0, "all threads have ended")


def test_what_a_client_library_cannot_read_is_nonsense() -> None:
    from callflow.responder import model_stream

    error = ValueError("secret words")
    with pytest.raises(ModelError) as raised:
        raise model_stream.as_model_error("fake", sys.modules["openai"], error, True)
    assert raised.value.kind == "nonsense"
    assert "secret" not in str(raised.value)


HEARD: list[tuple[Mode, str]] = [
    ("good", SAID),
    *((mode, SCRIPT) for mode in SLOW),
    *((mode, SCRIPT) for mode in ("busy", "error", "told_error", "no_key", "decline")),
    *((mode, SCRIPT) for mode in ("nonsense", "page", "empty")),
    *((mode, SAID) for mode in ("cut", "half_close", "too_long")),
]


@pytest.mark.parametrize("wire", WIRES)
def test_whatever_a_model_does_the_caller_hears_a_reply_in_time(
    server: ModelServer, wire: str
) -> None:
    found = []
    for mode, text in HEARD:
        server.modes = [mode]
        wording = responder if mode in SLOW else ample
        started = time.monotonic()
        heard, last = reply(wording(at(server, wire)), later())
        assert time.monotonic() - started < REPLY_S + LATE_S, mode
        found.append((mode, heard))
        assert last.sop_step == (2 if text == SAID else 1), mode
        assert ("model:script" in last.remarks) is (text == SCRIPT), mode
    assert found == HEARD


@pytest.mark.parametrize("wire", WIRES)
def test_forbidden_advice_is_replaced_while_it_streams(server: ModelServer, wire: str) -> None:
    server.says = FORBIDDEN
    heard, last = reply(ample(at(server, wire)), later())
    assert heard == f"I hear you. {SCRIPT}"
    assert last.remarks == ("guard:doors", "model:script")


def test_a_second_endpoint_answers_for_one_that_hangs(server: ModelServer) -> None:
    server.modes = ["hang"]
    with model_server() as other:
        started = time.monotonic()
        both = responder(at(server, "openai"), at(other, "anthropic"), first_s=1.0, reply_s=5.0)
        heard, last = reply(both, later())
        assert heard == SAID
        assert last.remarks == ("model:slow",)
        assert time.monotonic() - started < 1.0 + LATE_S


def test_two_endpoints_that_hang_cost_two_first_letters_and_no_more(server: ModelServer) -> None:
    server.modes = ["hang"]
    with model_server() as other:
        other.modes = ["hang"]
        started = time.monotonic()
        heard, _ = reply(responder(at(server, "openai"), at(other, "openai")), later())
        assert heard == SCRIPT
        assert time.monotonic() - started < REPLY_S + LATE_S


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stumble", ["error", "error_and_gone"])
def test_a_stumble_is_over_at_the_second_try(server: ModelServer, stumble: Mode, wire: str) -> None:
    server.modes = [stumble, "good"]
    heard, last = reply(ample(at(server, wire)), later())
    assert heard == SAID
    assert last.remarks == ("model:server",)


def test_a_dead_model_costs_each_worker_one_call_at_most(
    server: ModelServer, redis_url: str
) -> None:
    server.modes = ["hang"]
    workers = [
        responder(at(server, "openai"), breaker=Breakers(Scripts(connect(redis_url))))
        for _ in range(3)
    ]
    remarks = []
    for worker in (*workers, *workers):
        heard, last = reply(worker, later())
        assert heard == SCRIPT
        remarks.append(last.remarks[0])
    # Two of them have found out, for all.
    assert remarks == ["model:slow"] * 2 + ["model:open"] * 4
    assert len(server.asked) == 2


def test_a_model_named_twice_is_one_and_two_places_are_two() -> None:
    one = model("openai:small", "http://127.0.0.1:1/v1", "key")
    assert model("openai:small", "http://127.0.0.1:1/v1", "key") is one
    other = model("openai:small", "http://secret:word@127.0.0.1:2/v1", "key")
    assert (one.name, other.name) == ("openai:small@127.0.0.1:1", "openai:small@127.0.0.1:2")


def test_a_specification_that_is_none_is_refused() -> None:
    for spec in ("", "openai", "openai:", "openai: ", "acme:small", "small"):
        with pytest.raises(ModelUnusable, match="write it as one of openai:MODEL"):
            model(spec)


@pytest.mark.parametrize("wire", WIRES)
def test_a_key_that_is_missing_is_found_out_at_the_start(
    wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ModelUnusable, match="needs a key"):
        model(f"{wire}:without-a-key")


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ModelUnusable, match=r"callflow\[model\]"):
        model("anthropic:not-installed")


def test_a_forked_child_opens_a_connection_of_its_own(server: ModelServer) -> None:
    one = at(server, "openai")
    assert said(one) == GOOD
    wait_until(lambda: one.busy == 0, "the connection is free again")
    child = os.fork()
    if child == 0:
        os._exit(0 if said(one) == GOOD else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert said(one) == GOOD
    assert server.connections == 2


def test_a_worker_without_a_model_imports_no_client() -> None:
    code = (
        "import sys, callflow.responder.model_responder, callflow.responder.model_providers\n"
        "print(sorted({'openai', 'anthropic', 'httpx', 'httpx2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
