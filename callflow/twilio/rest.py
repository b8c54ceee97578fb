"""The telephone: rings people, moves calls, ends them. Each request is done once, never again here.

Whether to ask again is for the caller to decide, who knows what stands in the record.
"""

from __future__ import annotations

from callflow.twilio.account import Account, CallIsOver, TelephoneError
from callflow.twilio.dialling import NumberRefused, diallable

__all__ = ["CallIsOver", "Telephone", "TelephoneError"]


class Telephone:
    """Calls over Twilio's REST API. Threads may share it; every request ends within 5 s."""

    def __init__(self, account_sid: str, auth_token: str, api_url: str | None = None) -> None:
        """`api_url` replaces https://api.twilio.com: a simulator. Nothing is asked yet."""
        self._account = Account(account_sid, auth_token, api_url)

    def ring(self, to: str, caller_id: str, url: str, status_url: str, timeout_s: int) -> str:
        """Ring `to` for `timeout_s` and return the CallSid of that leg, which rings from now on.

        When picked up, Twilio asks `url` what to do; `status_url` hears of the answer and the end.
        Asked twice, the telephone rings twice. Raises TelephoneError: also for a number that a
        machine may not dial, and without an answer the telephone may ring all the same.
        """
        try:
            diallable(to)
        except NumberRefused as refused:
            raise TelephoneError(str(refused), retry=False) from refused
        with self._account.asking(f"ringing {to}") as client:
            leg = client.calls.create(
                to=to,
                from_=caller_id,
                url=url,
                method="POST",
                status_callback=status_url,
                status_callback_method="POST",
                status_callback_event=["answered", "completed"],
                timeout=timeout_s,
            ).sid
        if not isinstance(leg, str) or not leg:
            raise TelephoneError(f"ringing {to}: Twilio named no CallSid", retry=True)
        return leg

    def redirect(self, call_sid: str, url: str) -> None:
        """Have the call go on with the document at `url` (absolute), whatever it does now.

        Twice is as good as once. Raises CallIsOver, or another TelephoneError.
        """
        with self._account.asking(f"moving call {call_sid}", call_sid) as client:
            client.calls(call_sid).update(url=url, method="POST")

    def status(self, call_sid: str) -> str:
        """Where the call stands, in Twilio's word (`in-progress`, `completed`, …).

        Raises TelephoneError, also for a call that this account knows nothing of: that says nothing
        about its line.
        """
        with self._account.asking(f"asking for call {call_sid}") as client:
            return str(client.calls(call_sid).fetch().status)

    def hang_up(self, call_sid: str) -> None:
        """End the call, also while it rings. Raises CallIsOver if it has ended before."""
        with self._account.asking(f"hanging up call {call_sid}", call_sid) as client:
            client.calls(call_sid).update(status="completed")
