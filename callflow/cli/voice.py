"""What a caller in a terminal hears and says: as text for people, as JSON lines for programs."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from typing import Protocol

from callflow.call.record import CallRecord
from callflow.call.words import word
from callflow.cli import terminal
from callflow.store.replies import ReplyProgress

YOU = "you  ▸ "
US = "lift ▸ "


class Voice(Protocol):
    """Where a conversation is written to and what is said in it is read from."""

    def opened(self, record: CallRecord, *, known: bool) -> None:
        """The call is open; `known`: it was before, and has a thread."""

    def listen(self) -> str | None:
        """What the caller says next; "" is silence, None the end."""

    def waiting(self, turn: int) -> None:
        """A reply to `turn` is awaited."""

    def reply(self, turn: int, reply: ReplyProgress) -> None:
        """The reply has grown, or is done."""

    def human_wanted(self, reason: str) -> None:
        """The call is marked for a human; it goes on."""

    def human_took_over(self, reason: str) -> None:
        """A human has the call: nothing more comes from us."""

    def ended(self, outcome: str) -> None:
        """The call is over."""

    def note(self, text: str) -> None:
        """Something about the machinery, not the call."""


def read_line(prompt: str) -> str | None:
    """The next line of stdin without its end; None at the end of input."""
    if sys.stdin is None:
        return None
    if prompt:
        with suppress(ImportError):
            import readline  # noqa: F401  # Arrow keys edit the line.
        try:
            return input(prompt)
        except EOFError:
            sys.stdout.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            raise
    line = sys.stdin.readline()
    return line.rstrip("\r\n") if line else None


class TextVoice:
    """For people. Through a pipe stdout has the replies alone, each on its own line."""

    def __init__(self) -> None:
        self._console = terminal.console()
        self._terminal = self._console.is_terminal
        self._typed = self._terminal and sys.stdin is not None and sys.stdin.isatty()
        self._spoken = ""
        self._column = 0

    def opened(self, record: CallRecord, *, known: bool) -> None:
        """Say which call it is; show the thread so far."""
        at = f" from {terminal.plain(record.site)}" if record.site else ""
        how = (
            f"was opened before: {word(record)}" if known else f"is open, in {record.language}{at}"
        )
        can_speak = self._typed and record.outcome is None
        ways = " · Enter alone is silence, Ctrl-D hangs up" if can_speak else ""
        self.note(f"call {record.call_sid} {how}{ways}")
        if known and record.conversation_thread:
            from callflow.cli.calls_commands import render_transcript

            terminal.console(None if self._terminal else sys.stderr).print(
                render_transcript(record)
            )

    def listen(self) -> str | None:
        """Read a line; what comes through a pipe is shown to the person who looks on."""
        if self._typed:
            return read_line(self._coloured(YOU, "\033[1;36m"))
        said = read_line("")
        if said is not None and self._terminal:
            self._console.print(
                terminal.text(YOU, "bold cyan"), terminal.text(said or "(silence)"), sep=""
            )
        return said

    def _coloured(self, prompt: str, colour: str) -> str:
        if self._console.no_color or self._console.color_system is None:
            return prompt
        # Between \001 and \002 readline counts no columns.
        return f"\001{colour}\002{prompt}\001\033[0m\002"

    def waiting(self, turn: int) -> None:
        """Nothing has been heard yet."""
        self._spoken = ""
        self._column = 0

    def reply(self, turn: int, reply: ReplyProgress) -> None:
        """Write what is new of the reply, and end its line when it is done."""
        if not reply.text.startswith(self._spoken):
            # Never by our own workers; an older release may have worded it anew.
            sys.stdout.write("\n")
            self.waiting(turn)
        self._write(terminal.plain(reply.text[len(self._spoken) :]))
        self._spoken = reply.text
        if reply.done and not reply.text:
            self.note("(nothing is said)")
        if reply.done or (reply.over and self._spoken):
            sys.stdout.write("\n")
        sys.stdout.flush()

    def _write(self, text: str) -> None:
        """Go on with the line; on a terminal it is broken between words, under the first one."""
        if not self._terminal:
            sys.stdout.write(text)
            return
        from rich.cells import cell_len

        if text and self._column == 0:
            self._console.print(terminal.text(US, "bold green"), end="")
            self._column = len(US)
        for piece in re.findall(r"\s+|\S+", text):
            if self._column + cell_len(piece) > self._console.width:
                sys.stdout.write("\n" + " " * len(US))
                self._column = len(US)
                if piece.isspace():
                    continue
            sys.stdout.write(piece)
            self._column += cell_len(piece)

    def human_wanted(self, reason: str) -> None:
        """Say so once."""
        self._tell(f"marked for a human: {reason}", "magenta")

    def human_took_over(self, reason: str) -> None:
        """Say why."""
        self._tell(f"a human has this call now: {reason}", "bold magenta")

    def ended(self, outcome: str) -> None:
        """Say how."""
        self._tell(f"the call is over: {outcome.replace('_', ' ')}", "dim")

    def note(self, text: str) -> None:
        """Dim, beside the conversation."""
        self._tell(text, "dim")

    def _tell(self, text: str, style: str) -> None:
        terminal.console(sys.stderr).print(terminal.text(text, style), soft_wrap=True)


class JsonVoice:
    """For programs: one object per line, told apart by `event`."""

    def opened(self, record: CallRecord, *, known: bool) -> None:
        """`opened`, with the whole record."""
        self._tell(
            "opened",
            call_sid=record.call_sid,
            known=known,
            record=record.model_dump(mode="json"),
        )

    def listen(self) -> str | None:
        """A line of stdin."""
        return read_line("")

    def waiting(self, turn: int) -> None:
        """`heard`: what was said in `turn` is stored."""
        self._tell("heard", turn=turn)

    def reply(self, turn: int, reply: ReplyProgress) -> None:
        """`reply`, whole each time; `done` is true for the last of a turn."""
        worker = reply.status.assigned_worker if reply.status else None
        self._tell("reply", turn=turn, text=reply.text, done=reply.done, worker=worker)

    def human_wanted(self, reason: str) -> None:
        """`human_wanted`."""
        self._tell("human_wanted", reason=reason)

    def human_took_over(self, reason: str) -> None:
        """`human_took_over`: the last one."""
        self._tell("human_took_over", reason=reason)

    def ended(self, outcome: str) -> None:
        """`ended`: the last one."""
        self._tell("ended", outcome=outcome)

    def note(self, text: str) -> None:
        """`note`."""
        self._tell("note", text=text)

    def _tell(self, event: str, **facts: object) -> None:
        terminal.line(json.dumps({"event": event, **facts}, ensure_ascii=False))
