"""Makes pages: templates that escape whatever is put into them, in the language of who reads them.

Nothing in them is markup that came from a call: names, words and procedures are text, escaped by
the templates and put in as text by the scripts. The headers (`headers.py`) are the second line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from callflow.access.sessions import Person
from callflow.i18n import COOKIE, LANGUAGES, Catalogue, catalogue, choose_language

BASE: Final = "/board"

STATIC: Final = Path(__file__).parent / "static"

A_YEAR_S: Final = 365 * 24 * 3600

Keys = Sequence[tuple[tuple[str, ...], str]]

BOARD_KEYS: Final[Keys] = (
    (("j", "k"), "next"),
    (("↓", "↑"), "next"),
    (("Home", "End"), "first"),
    (("Enter",), "open"),
    (("a", "A"), "seen"),
    (("s",), "sort"),
    (("m",), "mute"),
    (("t",), "theme"),
    (("?",), "help"),
)
CALL_KEYS: Final[Keys] = ((("b", "Esc"), "back"), (("t",), "theme"), (("?",), "help"))

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("callflow.board"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def language_of(request: Request, person: Person | None) -> str:
    """Chosen on this machine, else what the person reads, else what the browser accepts."""
    read = None if person is None else person.language
    accepts = request.headers.get("accept-language", "")
    return choose_language(request.cookies.get(COOKIE), read, accepts=accepts)


def words_of(request: Request, person: Person | None) -> Catalogue:
    """The words of that language."""
    return catalogue(language_of(request, person))


def switched(request: Request, *, secure: bool) -> Response | None:
    """The way back to the same page in the language that `?lang=` names; None without one."""
    wish = request.query_params.get("lang")
    if wish is None:
        return None
    kept = [(name, value) for name, value in request.query_params.multi_items() if name != "lang"]
    # A path of ours alone: `//elsewhere` would be another host.
    path = "/" + request.url.path.lstrip("/")
    response = RedirectResponse(path + (f"?{urlencode(kept)}" if kept else ""), 303)
    response.set_cookie(
        COOKIE,
        choose_language(wish),
        max_age=A_YEAR_S,
        path="/",
        secure=secure,
        httponly=True,
        samesite="lax",
    )
    return response


def page(
    name: str,
    request: Request,
    person: Person | None,
    *,
    status: int = 200,
    csrf: str = "",
    sound: bool = False,
    keys: Keys = (),
    **values: Any,
) -> HTMLResponse:
    """The page that the template `name` makes of `values`, with what all pages have in common:
    `w` (the words), `person`, `csrf`, `base`. `keys` are listed in the window of keys."""
    shown: Mapping[str, Any] = {
        "w": words_of(request, person),
        "languages": LANGUAGES,
        "base": BASE,
        "person": person,
        "csrf": csrf,
        "sound": sound,
        "keys": bool(keys),
        "key_list": keys,
        **values,
    }
    return HTMLResponse(_ENVIRONMENT.get_template(name).render(shown), status)
