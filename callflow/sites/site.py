"""One lift as its operator describes it: where it is, how it is spoken with, whom to ring."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from callflow.twilio.phone_numbers import NumberRefused, diallable, e164

ANY = "*"
"""In place of a called number: the site of every call that no other site claims."""

LANGUAGES = ("en", "es", "zh")

_LANGUAGE = re.compile(rf"({'|'.join(LANGUAGES)})(-[A-Za-z0-9]{{2,8}}){{0,2}}")


def plain(number: str) -> str:
    """A number without the spaces, hyphens, dots and brackets that people write, and without the
    zero that they put in brackets behind a country code: it is dialled at home only."""
    return re.sub(r"[\s().-]", "", number.replace("(0)", "") if "+" in number else number)


def _line(number: str) -> str:
    number = plain(number)
    if number == ANY:
        return number
    try:
        return e164(number)
    except NumberRefused as error:
        raise ValueError(str(error)) from error


def _person(number: str) -> str:
    try:
        return diallable(plain(number))
    except NumberRefused as error:
        raise ValueError(str(error)) from error


def _language(tag: str) -> str:
    if not _LANGUAGE.fullmatch(tag):
        raise ValueError(
            f"{tag!a} is no language that callflow speaks: write one of {', '.join(LANGUAGES)}, "
            "with a region if you like, as in en-GB"
        )
    return tag


def _one_line(words: str) -> str:
    """An address may stand on several lines; it is told, and logged, as one."""
    words = " ".join(words.split())
    if any(unicodedata.category(char) in ("Cc", "Cn") for char in words):
        raise ValueError("has a control character, which cannot be said")
    return words


_Words = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_one_line)]
_Seconds = Annotated[int, Field(ge=5, le=120)]


class _Checked(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Human(_Checked):
    """One rung of the ladder: a person's telephone, and for how long it is rung.

    45 s is the time in which ASME A17.1 wants a call acknowledged before it is passed on.
    """

    number: Annotated[str, AfterValidator(_person)]
    name: _Words
    ring_s: _Seconds = 45


class Site(_Checked):
    """One lift, or several that share a line.

    `called` are the numbers that it dials, `calling` those that it dials from. `mode`: `assist`
    rings a human at the start of every call, `agent_only` when one is wanted. `emergency_number` is
    told to the human and never dialled. `allowed_digits`: what may be sent to the device, nothing
    by default.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    called: tuple[Annotated[str, AfterValidator(_line)], ...] = ()
    calling: tuple[Annotated[str, AfterValidator(_line)], ...] = ()
    lift: _Words
    address: _Words
    language: Annotated[str, AfterValidator(_language)] = "en"
    mode: Literal["assist", "agent_only"] = "assist"
    voice: Literal["gather", "relay"] | None = None
    humans: Annotated[tuple[Human, ...], Field(min_length=1, max_length=20)]
    emergency_number: Annotated[str, Field(pattern=r"^\+?[0-9 ]{2,20}$")] | None = None
    caller_id: Annotated[str, AfterValidator(_person)] | None = None
    device: _Words | None = None
    allowed_digits: Annotated[str, Field(pattern=r"^[0-9*#ABCD]{0,16}$")] = ""

    @model_validator(mode="after")
    def _can_be_called_and_can_call(self) -> Site:
        if not self.called and not self.calling:
            raise ValueError("has neither called nor calling numbers: no call would be this site's")
        if ANY in self.calling:
            raise ValueError(f"has {ANY} for a calling number: only a called number can be any")
        if self.caller_id is None and not [number for number in self.called if number != ANY]:
            raise ValueError(
                "has no number of its own to show to humans: add caller_id, one of your numbers at "
                "the carrier"
            )
        return self

    @property
    def number_to_show(self) -> str:
        """The number that a human who is rung sees: one that the carrier knows as ours."""
        return self.caller_id or next(number for number in self.called if number != ANY)
