"""Writes docs/settings.md from the settings that the code knows; `--check` only compares.

The meaning of each setting is the docstring below its field, so it stands in one place.
"""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from callflow.settings import PREFIX, Settings

PAGE = Path(__file__).with_name("settings.md")

HEAD = """# Settings

All settings come from the environment. Every process of a deployment must have the same ones. A
misspelt variable is refused, since a setting that is silently ignored is found out during the
emergency; an empty one counts as not set.

<!-- Written by `make docs` from callflow's own settings; do not edit. -->

| variable | default | meaning |
|---|---|---|
"""


def settings_page() -> str:
    """The whole page, one row for each setting in the order of the code."""
    meanings = _meanings()
    rows = []
    for name, field in Settings.model_fields.items():
        meaning = meanings[name] + _bounds(field)
        rows.append(f"| `{PREFIX}{name.upper()}` | {_default(field)} | {meaning} |")
    return HEAD + "\n".join(rows) + "\n"


def _meanings() -> dict[str, str]:
    found = {}
    for owner in reversed(Settings.__mro__):
        if not owner.__module__.startswith("callflow."):
            continue
        body = ast.parse(inspect.getsource(owner)).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                found[field.target.id] = " ".join(str(text.value.value).split()).replace("|", "\\|")
    return found


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value is PydanticUndefined:
        return "not set"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`"


def _bounds(field: FieldInfo) -> str:
    bounds = [
        f"{word} {getattr(rule, sign):g}"
        for rule in field.metadata
        for sign, word in (("ge", "at least"), ("le", "at most"), ("min_length", "length at least"))
        if getattr(rule, sign, None) is not None
    ]
    return f" ({', '.join(bounds)})" if bounds else ""


def main() -> int:
    """Write the page, or with `--check` say whether it is up to date (exit status 1: it is not)."""
    page = settings_page()
    if sys.argv[1:] != ["--check"]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page:
        return 0
    print(f"{PAGE} is out of date: run `make docs`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
