"""One SOP file as numbered lines, and the way to refuse it: path, line, reason, way out.

The text is read once; comments are blanked rather than cut, so that every later step still counts
the lines that the operator sees in an editor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from callflow.errors import SopError

# A procedure of a few pages is some 20 KB; a hundred times that is a wrong file.
MAX_FILE_BYTES = 2_000_000

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x85\ud800-\udfff\ufeff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Source:
    """The lines of one file (from 1 in every message, from 0 in `lines`)."""

    path: Path
    lines: tuple[str, ...]

    @classmethod
    def of(cls, path: Path, data: bytes) -> Source:
        """Decode one file. Raises SopError when it is empty, too large or not plain UTF-8 text."""
        if len(data) > MAX_FILE_BYTES:
            raise SopError(
                path, 1, f"the file is larger than {MAX_FILE_BYTES} bytes; is it the right one?"
            )
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            raise SopError(path, line, "not UTF-8 text; save the file as UTF-8") from error
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        source = cls(path, tuple(text.split("\n")))
        if not text.strip():
            source.fail(1, "the file is empty; begin with --- and the front matter")
        for number, line_text in enumerate(source.lines, start=1):
            if found := _CONTROL.search(line_text):
                source.fail(number, f"control character U+{ord(found[0]):04X}; delete it")
        return source

    def fail(self, line: int, reason: str) -> NoReturn:
        """Refuse the file because of `line` (from 1; kept within the file)."""
        raise SopError(self.path, min(max(line, 1), len(self.lines)), reason)

    def without_comments(self, first: int) -> list[tuple[int, str]]:
        """Return (line number, text) from index `first` on, `<!-- … -->` blanked."""
        body = "\n".join(self.lines[first:])
        blanked = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), body)
        lines = blanked.split("\n")
        for index, text in enumerate(lines):
            if "<!--" in text:
                self.fail(first + index + 1, "a comment is never closed; end it with -->")
        return [(first + index + 1, text) for index, text in enumerate(lines)]
