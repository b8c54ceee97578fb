"""The telephone asks Twilio once and soon, and says plainly what became of it."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from itertools import product

import pytest

from callflow.twilio import rest
from callflow.twilio.rest import CallIsOver, Telephone, TelephoneError
from tests.twilio.rest_api import ACCOUNT, TOKEN, Answer, Asked, RestApi

CALLS = f"/2010-04-01/Accounts/{ACCOUNT}/Calls"
JOIN = "https://h.example/voice/join#rc=2"


@pytest.fixture
def telephone(api: RestApi) -> Telephone:
    return Telephone(ACCOUNT, TOKEN, api.url)


def ring(telephone: Telephone, to: str = "+441632960999") -> str:
    return telephone.ring(
        to, "+441632960010", "https://h.example/human", "https://h.example/leg-status", 30
    )


REQUESTS: dict[str, Callable[[Telephone], object]] = {
    "ring": ring,
    "redirect": lambda telephone: telephone.redirect("CA1", JOIN),
    "hang_up": lambda telephone: telephone.hang_up("CA1"),
    "status": lambda telephone: telephone.status("CA1"),
}


def told(error: BaseException) -> str:
    """Everything that a log or a traceback would show."""
    return "".join(traceback.format_exception(error)) + repr(error)


def test_the_carrier_tells_where_a_call_stands(api: RestApi, telephone: Telephone) -> None:
    api.answers(200, sid="CA1", status="in-progress")
    assert telephone.status("CA1") == "in-progress"
    assert (api.last.method, api.last.path) == ("GET", f"{CALLS}/CA1.json")


def test_a_call_that_the_account_does_not_know_is_not_said_to_be_over(
    api: RestApi, telephone: Telephone
) -> None:
    """It may be another account's, with somebody in the lift."""
    api.answers(404, code=20404, message="not found", status=404)
    with pytest.raises(TelephoneError) as caught:
        telephone.status("CA1")
    assert not isinstance(caught.value, CallIsOver)


def test_a_human_is_rung_and_the_leg_is_named(api: RestApi, telephone: Telephone) -> None:
    api.answers(201, sid="CA0000000000000000000000000000000b", status="queued")
    assert ring(telephone) == "CA0000000000000000000000000000000b"
    assert (api.last.method, api.last.path) == ("POST", f"{CALLS}.json")
    assert api.last.authorized
    assert api.last.form == {
        "To": ["+441632960999"],
        "From": ["+441632960010"],
        "Url": ["https://h.example/human"],
        "Method": ["POST"],
        "StatusCallback": ["https://h.example/leg-status"],
        "StatusCallbackMethod": ["POST"],
        "StatusCallbackEvent": ["answered", "completed"],
        "Timeout": ["30"],
    }


def test_a_call_is_moved_to_another_document(api: RestApi, telephone: Telephone) -> None:
    api.answers(200, sid="CA1")
    telephone.redirect("CA1", JOIN)
    assert (api.last.method, api.last.path) == ("POST", f"{CALLS}/CA1.json")
    assert api.last.form == {"Url": [JOIN], "Method": ["POST"]}


def test_a_call_is_ended(api: RestApi, telephone: Telephone) -> None:
    api.answers(200, sid="CA1")
    telephone.hang_up("CA1")
    assert (api.last.path, api.last.form) == (f"{CALLS}/CA1.json", {"Status": ["completed"]})


def test_the_address_of_a_simulator_may_have_a_path(api: RestApi) -> None:
    api.answers(200, sid="CA1")
    Telephone(ACCOUNT, TOKEN, f"{api.url}/twilio/").hang_up("CA1")
    assert api.last.path == f"/twilio{CALLS}/CA1.json"


def test_a_number_that_is_no_persons_is_never_asked_for(api: RestApi, telephone: Telephone) -> None:
    for number in ("999", "+1911", "+4400000112", "01632960999", "anonymous", ""):
        with pytest.raises(TelephoneError) as caught:
            ring(telephone, number)
        assert not caught.value.retry
    assert api.asked == []


REFUSALS = (  # HTTP status, Twilio's code, whether to ask again.
    *((429, 20429, True), (400, 20429, True), (500, 20500, True), (503, 20503, True)),
    *((400, 21211, False), (401, 20003, False), (403, 20003, False), (400, 21215, False)),
)


def test_a_refusal_tells_whether_to_ask_again(api: RestApi, telephone: Telephone) -> None:
    for (status, code, retry), request in product(REFUSALS, REQUESTS.values()):
        api.refuses(status, code, "Not so.\nNever.")
        asked = len(api.asked)
        with pytest.raises(TelephoneError) as caught:
            request(telephone)
        error = caught.value
        assert (error.status, error.code, error.retry) == (status, code, retry)
        assert f"({status}, error {code})" in str(error)
        assert "Not so. Never." in str(error)
        assert ("CALLFLOW_TWILIO_AUTH_TOKEN" in str(error)) == (status in (401, 403))
        assert len(api.asked) == asked + 1  # Asking again is not the telephone's to decide.
        assert not isinstance(error, CallIsOver)


def test_a_call_that_is_over_is_told_from_other_refusals(
    api: RestApi, telephone: Telephone
) -> None:
    for status, code in ((400, 21220), (404, 20404)):
        api.refuses(status, code, "Call is not in-progress. Cannot redirect.")
        for request in (REQUESTS["redirect"], REQUESTS["hang_up"]):
            with pytest.raises(CallIsOver, match="CA1") as caught:
                request(telephone)
            assert (caught.value.call_sid, caught.value.code) == ("CA1", code)
            assert not caught.value.retry
        with pytest.raises(TelephoneError) as refused:
            ring(telephone)
        assert not isinstance(refused.value, CallIsOver)


def test_an_error_in_the_newer_form_is_understood(api: RestApi, telephone: Telephone) -> None:
    api.answers(429, type="https://…", title="Too Many Requests", status=429, code=20429)
    for request in REQUESTS.values():
        with pytest.raises(TelephoneError, match="Too Many Requests") as caught:
            request(telephone)
        assert (caught.value.status, caught.value.code, caught.value.retry) == (429, 20429, True)


def test_what_is_no_answer_of_twilios_may_be_asked_again(
    api: RestApi, telephone: Telephone
) -> None:
    for answer in (
        (502, "<html>Bad gateway</html>"), (200, "<html>Log in to this network</html>"),
        (200, "[]"), (200, "null"), (500, b"\xff\xfe"), (503, ""), (201, '{"sid": 5}'),
    ):  # fmt: skip
        api.answer = lambda asked, answer=answer: answer  # type: ignore[misc]
        with pytest.raises(TelephoneError) as caught:
            ring(telephone)
        assert caught.value.retry


def test_a_carrier_that_does_not_answer_is_given_up(
    api: RestApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "TOTAL_S", 0.1)
    api.answer = lambda asked: None
    for request in REQUESTS.values():
        began, asked = time.monotonic(), len(api.asked)
        with pytest.raises(TelephoneError, match="cannot be reached") as caught:
            request(Telephone(ACCOUNT, TOKEN, api.url))
        assert time.monotonic() - began < 5
        assert caught.value.retry
        assert caught.value.status is None
        assert len(api.asked) == asked + 1


def test_no_request_takes_longer_than_a_ring_may_stay_unconfirmed() -> None:
    client = rest.sdk_client(ACCOUNT, TOKEN, None)
    assert client.http_client.timeout.total < 5
    assert client.http_client.timeout.connect_timeout < client.http_client.timeout.total


def test_a_port_where_nobody_listens_may_be_asked_again() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # And not listening.
        telephone = Telephone(ACCOUNT, TOKEN, f"http://127.0.0.1:{taken.getsockname()[1]}")
        for request in REQUESTS.values():
            with pytest.raises(TelephoneError, match="cannot be reached") as caught:
                request(telephone)
            assert caught.value.retry


def test_no_error_shows_a_secret(api: RestApi, telephone: Telephone) -> None:
    def echo(asked: Asked) -> Answer:
        said = f"{TOKEN} {asked.authorization}".replace('"', "")
        return 400, f'{{"code": 20003, "message": "{said}", "status": 400}}'

    api.answer = echo
    for request in REQUESTS.values():
        with pytest.raises(TelephoneError) as caught:
            request(telephone)
        ours = f"{caught.value} {caught.value!r} {caught.value.__dict__}"
        assert TOKEN not in ours
        assert "Basic …" in ours

    for answer in ((500, "oops"), (200, "no JSON"), (401, '{"code": 20003, "message": "Nope"}')):
        api.answer = lambda asked, answer=answer: answer  # type: ignore[misc]
        with pytest.raises(TelephoneError) as caught:
            ring(telephone)
        assert TOKEN not in told(caught.value)
    assert TOKEN not in repr(telephone)


def test_a_worker_that_never_telephones_does_not_load_the_sdk() -> None:
    code = (
        "import sys, callflow.twilio.rest as rest; rest.Telephone('AC1', 't'); "
        "print(*sorted({'twilio', 'requests', 'urllib3'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
