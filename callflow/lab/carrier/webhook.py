"""One webhook: signed, sent, tried again as its address says, and disturbed as the run asks.

A repeat is a second request with the same body whose answer counts for nothing. A retry carries
`I-Twilio-Idempotency-Token`, which is another one each time: nobody may rely on it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from uuid import uuid4

from twilio.request_validator import RequestValidator

from callflow.lab.carrier.background import Background
from callflow.lab.carrier.failure import NO_ANSWER, ApplicationFailed
from callflow.lab.carrier.http import HttpClient, NoResponse, NotConnected, Response
from callflow.lab.carrier.mischief import Fate
from callflow.lab.carrier.network import Address, Network, Target
from callflow.lab.carrier.report import CallReport

FORM: Final = "application/x-www-form-urlencoded; charset=UTF-8"


class Signer:
    """Signs as the account whose token this is."""

    def __init__(self, auth_token: str) -> None:
        self._validator = RequestValidator(auth_token)

    def sign(self, url: str, fields: Mapping[str, str]) -> str:
        """The value of `X-Twilio-Signature`."""
        return str(self._validator.compute_signature(url, fields))


@dataclass(frozen=True, slots=True)
class _Request:
    address: Address
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Webhooks:
    """Sends the webhooks of all lines."""

    def __init__(
        self,
        network: Network,
        client: HttpClient,
        signer: Signer,
        background: Background,
    ) -> None:
        self._network = network
        self._client = client
        self._signer = signer
        self._background = background

    async def ask(
        self, address: Address, fields: Mapping[str, str], fate: Fate, report: CallReport
    ) -> Response:
        """The application's answer, 2xx. Attempts and delays are counted in `report`.

        Raises ApplicationFailed when there is none after all retries.
        """
        request = self._request(address, fields)
        report.requests += 1
        await _disturb(fate.delay_s, report)
        if fate.repeat_after_s is not None:
            self._background.start(self._repeat(request, fate.repeat_after_s))
        patience = address.patience
        try:
            async with asyncio.timeout(patience.total_s):
                return await self._attempts(request, fate, report)
        except TimeoutError as error:
            reason = f"no answer within {patience.total_s:g} s"
            raise ApplicationFailed(NO_ANSWER, address.url, reason) from error

    async def notify(self, address: Address, fields: Mapping[str, str], fate: Fate) -> None:
        """Send a status callback, whose answer nobody reads. Raises ApplicationFailed."""
        request = self._request(address, fields)
        await _disturb(fate.delay_s, None)
        if fate.repeat_after_s is not None:
            self._background.start(self._repeat(request, fate.repeat_after_s))
        try:
            async with asyncio.timeout(address.patience.total_s):
                await self._attempts(request, fate, None)
        except TimeoutError as error:
            raise ApplicationFailed(NO_ANSWER, address.url, "no answer in time") from error

    async def _attempts(self, request: _Request, fate: Fate, report: CallReport | None) -> Response:
        patience = request.address.patience
        target: Target | None = None
        reason = ""
        for attempt in range(patience.retries + 1):
            target = self._network.target(other_than=target)
            if attempt and report is not None:
                report.retries += 1
            try:
                if attempt == 0 and fate.lost is not None:
                    await self._lose(request, target, fate, report)
                response = await self._send(request, target, retry=attempt > 0)
            except NotConnected as error:
                kind, reason = "ct", str(error)
            except NoResponse as error:
                kind, reason = "rt", str(error)
            else:
                if 200 <= response.status < 300:
                    return response
                kind, reason = f"{response.status // 100}xx", f"it answered {response.status}"
            if not patience.tries_again(kind):
                break
        raise ApplicationFailed(NO_ANSWER, request.address.url, reason)

    async def _send(self, request: _Request, target: Target, *, retry: bool) -> Response:
        token = (("I-Twilio-Idempotency-Token", str(uuid4())),) if retry else ()
        patience = request.address.patience
        return await self._client.post(
            target,
            request.address.path,
            (*request.headers, *token),
            request.body,
            connect_s=patience.connect_s,
            read_s=patience.read_s,
        )

    async def _lose(
        self, request: _Request, target: Target, fate: Fate, report: CallReport | None
    ) -> None:
        """An attempt that comes to nothing: raises what its sender sees of it."""
        began = time.monotonic()
        try:
            if fate.lost == "answer":
                await self._send(request, target, retry=False)
                raise NoResponse("the answer was lost, on purpose")
            await asyncio.sleep(request.address.patience.connect_s)
            raise NotConnected("the request was lost, on purpose")
        finally:
            if report is not None:
                report.mischief_s += time.monotonic() - began

    async def _repeat(self, request: _Request, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self._send(request, self._network.target(), retry=False)
        except (NotConnected, NoResponse):
            """Nobody looks at the answer of a repeat, so nobody misses it."""

    def _request(self, address: Address, fields: Mapping[str, str]) -> _Request:
        headers = (
            ("Host", self._network.host),
            ("X-Forwarded-Proto", self._network.scheme),
            ("User-Agent", "TwilioProxy/1.1"),
            ("Accept", "*/*"),
            ("Content-Type", FORM),
            ("X-Twilio-Signature", self._signer.sign(address.url, fields)),
        )
        return _Request(address, headers, urlencode(fields).encode())


async def _disturb(delay_s: float, report: CallReport | None) -> None:
    if delay_s:
        if report is not None:
            report.mischief_s += delay_s
        await asyncio.sleep(delay_s)
