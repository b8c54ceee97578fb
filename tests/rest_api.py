"""The carrier's REST API as seen from us: notes what is asked, answers as it is told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.twilio import rest_api as twilio_api


@dataclass(frozen=True)
class Asked:
    """One request: `leg` is the CallSid in its address, or None for a new call."""

    leg: str | None
    fields: dict[str, str]


@dataclass
class RestApi:
    """`refuse`: status and Twilio code of every answer to come, None to do what is asked. `lines`:
    where the calls stand that it knows."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    refuse: tuple[int, int] | None = None
    lines: dict[str, str] = field(default_factory=dict)
    looked_at: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Do what is asked, and know of nothing that was."""
        self.refuse = None
        for known in (self.asked, self.lines, self.looked_at):
            known.clear()

    @property
    def rung(self) -> list[str]:
        """The numbers that were called, in order."""
        return [one.fields["To"] for one in self.asked if one.leg is None]

    @property
    def last_ring(self) -> dict[str, str]:
        """The newest outbound call."""
        return next(one.fields for one in reversed(self.asked) if one.leg is None)

    def answer(self, request: twilio_api.Asked) -> twilio_api.Answer:
        """Note what is asked, and what becomes of it."""
        name = request.path.rsplit("/", 1)[1].removesuffix(".json")
        leg = None if name == "Calls" else name
        if request.method == "GET":
            self.looked_at.append(name)
            known = {"sid": name, "status": self.lines.get(name, "")}
            refused = self.refuse or (None if name in self.lines else (404, 20404))
        else:
            self.asked.append(Asked(leg, {key: value for key, (value, *_) in request.form.items()}))
            known = {"sid": leg or f"CA{len(self.asked):032x}", "status": "queued"}
            refused = self.refuse
        if refused is None:
            return 200 if request.method == "GET" else 201, json.dumps(known)
        status, code = refused
        return status, json.dumps({"code": code, "message": "refused", "status": status})


@contextmanager
def rest_api() -> Iterator[RestApi]:
    """Serve it on loopback while the block runs."""
    with twilio_api.rest_api() as server:
        api = RestApi(server.url)
        server.answer = api.answer
        yield api
