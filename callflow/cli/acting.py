"""What the commands have in common with which a person acts in a call."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

By = Annotated[
    str | None, typer.Option(help="Who does it; the user of this machine where left out.")
]

Request = Annotated[
    str | None,
    typer.Option(help="A name for this request: given again, it is done once. For scripts."),
]


def who(by: str | None) -> str:
    """Who acts."""
    return by or getpass.getuser()


def named(request: str | None) -> str:
    """The name of this request."""
    from callflow.store.asked import new_request

    return request or new_request()
