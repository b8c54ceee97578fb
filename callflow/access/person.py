"""Somebody who has signed in."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Literal, Self

from callflow.call.role import Role

Source = Literal["local", "oidc"]
"""Who vouches for somebody: the file of users, or the provider of the company's accounts."""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at the board. `name` is what the journal calls them.

    `telephone`: where they can be rung for a call, E.164; None where nobody has said.
    `language`: of the pages, `en` or `zh`.
    """

    name: str
    role: Role
    telephone: str | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whose session it is, as they were when it began.

    `subject` names them at `source` for ever. `stamp` changes with a local user's role or password,
    and ends their sessions.
    """

    person: Person
    source: Source
    subject: str
    stamp: str = ""

    @property
    def key(self) -> str:
        """Stands for them where their sessions are kept, without their name: 32 hex digits."""
        return hashlib.sha256(f"{self.source}:{self.subject}".encode()).hexdigest()[:32]

    def as_json(self) -> str:
        """The same as text."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def of_json(cls, text: str) -> Self:
        """From what `as_json` gave."""
        said = json.loads(text)
        who = said.pop("person")
        return cls(person=Person(**{**who, "role": Role(who["role"])}), **said)
