"""Runs `callflow phone`: calls in as a carrier does, by hand, by a pipe, or by the hundred."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Protocol
from urllib.parse import urlsplit

import typer

from callflow.cli import terminal
from callflow.cli.terminal import INTERRUPTED

if TYPE_CHECKING:
    import asyncio

    from rich.table import Table

    from callflow.lab.carrier.call_report import CallReport, LoadResult
    from callflow.lab.carrier.carrier import Carrier
    from callflow.lab.carrier.carrier_call import Call
    from callflow.lab.carrier.network_faults import NetworkFaults
    from callflow.lab.carrier.phone_account import PhoneAccount
    from callflow.lab.carrier.simulated_people import Behaviour, Typist
    from callflow.lab.percentiles import Percentiles

YOU = "you  ▸ "
LIFT = "lift ▸ "

LONG_SILENCE_S = 1.0
"""Shorter ones are not worth a line; from 4 s on it is in red."""

TOO_LONG_S = 4.0

LOOK_S = 0.2

_SOUNDS = {
    "ring": "(it rings)",
    "music": "(music)",
    "human": "a person is on the line",
}


class HumanAnswer(StrEnum):
    """What the humans do when they are rung."""

    NEVER = "never"
    ANSWERS = "answers"
    BUSY = "busy"
    REFUSES = "refuses"
    FAILS = "fails"


class Show(Protocol):
    """Is told what happens in one call."""

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """An event of `callflow.lab.carrier`."""

    def report(self, report: CallReport) -> None:
        """The call is over."""


class ConversationPrinter:
    """For people. Through a pipe what the lift says is on stdout, and all else on stderr.

    `typed`: the caller sees what they type themselves.
    """

    def __init__(self, *, typed: bool) -> None:
        self._typed = typed
        self._console = terminal.console()
        self._in_line = False
        self._prompted = False

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """Show it, if people want to know."""
        text = str(facts.get("text", ""))
        match event:
            case "heard":
                self._print_heard(str(facts["kind"]), text)
            case "token":
                self._write(terminal.plain(text))
            case "cut":
                self._write(" –")
            case "said":
                self._print_said(text)
            case "listens" if self._typed and self._console.is_terminal:
                self._end_line()
                self._console.print(terminal.text(YOU, "bold cyan"), end="")
                self._prompted = True
            case "silence":
                self._print_silence(float(str(facts["length_s"])))
            case "status":
                self._print_note(str(facts["status"]))
            case "failure" | "session_lost":
                self._print_note(str(facts["reason"]), "yellow")
            case "digits_sent":
                self._print_note(f"keys towards the lift: {facts['digits']}")

    def report(self, report: CallReport) -> None:
        """Say how it ended."""
        ended = f"the call is over after {report.duration_s:.0f} s, ended by the {report.ended_by}"
        longest = f"longest silence {report.longest_silence_s:.1f} s"
        again = terminal.counted(report.retries, "retry", "retries") if report.retries else ""
        self._print_note(terminal.sentence((ended, longest, again)))

    def _print_heard(self, kind: str, text: str) -> None:
        self._end_line()
        if kind in _SOUNDS:
            self._print_note(_SOUNDS[kind], "magenta")
            return
        if self._console.is_terminal:
            self._console.print(terminal.text(LIFT, "bold green"), end="")
        self._in_line = True
        self._write(terminal.plain(text))

    def _print_said(self, text: str) -> None:
        self._prompted = False
        self._end_line()
        if not self._typed and self._console.is_terminal:
            words = terminal.text(text or "(silence)")
            self._console.print(terminal.text(YOU, "bold cyan"), words, sep="")

    def _write(self, words: str) -> None:
        sys.stdout.write(words)
        sys.stdout.flush()

    def _end_line(self) -> None:
        if self._in_line or self._prompted:
            self._write("\n")
        self._in_line = self._prompted = False

    def _print_silence(self, length_s: float) -> None:
        if length_s >= LONG_SILENCE_S:
            style = "bold red" if length_s > TOO_LONG_S else "dim"
            self._print_note(f"(silence, {length_s:.1f} s)", style)

    def _print_note(self, words: str, style: str = "dim") -> None:
        self._end_line()
        terminal.console(sys.stderr).print(terminal.text(words, style), soft_wrap=True)


class JsonLines:
    """For programs: one object for each event, the last of which is `report`."""

    def show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """The event as it is."""
        terminal.print_line(json.dumps({"event": event, **facts}, ensure_ascii=False))

    def report(self, report: CallReport) -> None:
        """`report`: everything that was said, heard and not heard."""
        self.show_event("report", report.as_dict())


class Progress:
    """How far a load has come: one line on stderr, on a terminal alone."""

    def __init__(self, calls: int) -> None:
        self._calls = calls
        self._console = terminal.console(sys.stderr)

    async def keep_showing(self, placed: Sequence[Call]) -> None:
        """Draw it anew until cancelled; `placed` grows meanwhile."""
        import asyncio

        while self._console.is_terminal:
            over = [call.report for call in placed if call.line.over]
            lost = sum(len(report.lost) for report in over)
            words = (
                f"{len(placed)} of {self._calls} called · {len(placed) - len(over)} on the line · "
                f"{len(over)} over · {lost} turns lost"
            )
            self._console.print(terminal.text(words), end="\r", soft_wrap=True)
            await asyncio.sleep(LOOK_S)

    def end(self) -> None:
        """Leave the line."""
        if self._console.is_terminal:
            self._console.print()


def table(result: LoadResult) -> Table:
    """The result, for people."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    bad = "bold red" if not result.good else "bold green"
    rows = {
        "calls, turns": f"{result.calls} calls, {result.turns} turns",
        "silence": _spread(result.silence_s, "s"),
        "words → reply": _spread(result.answer_ms, "ms"),
        "prompt → first token": _spread(result.first_token_ms, "ms"),
        "webhooks, retries": f"{result.requests} webhooks, {result.retries} retries",
        "with a human, gave up": f"{result.with_human}, {result.gave_up}",
        "ended by": ", ".join(f"{who} {count}" for who, count in result.ended_by.items()),
    }
    for name, value in rows.items():
        grid.add_row(terminal.text(name, "dim"), terminal.text(value))
    grid.add_row(
        terminal.text("failed, lost", "dim"), terminal.text(f"{result.failed}, {result.lost}", bad)
    )
    return grid


def _spread(found: Percentiles, unit: str) -> str:
    if found.p50 is None:
        return "—"
    return f"p50 {found.p50} {unit}   p99 {found.p99}   max {found.max}"


FILLERS = ("hold_1", "hold_2", "getting_person", "still_here")
"""After these a caller goes on waiting."""

TALKING = 10.0
"""Speed of a conversation by hand: one reads faster than one listens."""

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)


def parse_language(given: str) -> str:
    """The tag of a language as it is given to an option. Raises BadParameter."""
    if not _LANGUAGE.fullmatch(given):
        raise typer.BadParameter(f"{terminal.plain(given)!r} is no language: write en, es or en-GB")
    return given


@dataclass(frozen=True, slots=True)
class _Plan:
    to: str
    from_: str
    language: str
    calls: int
    rate_per_s: float
    turns: int
    speed: float
    seed: int
    human: HumanAnswer
    faults: NetworkFaults
    as_json: bool

    def carrier(self, account: PhoneAccount) -> Carrier:
        return open_carrier(
            account, speed=self.speed, seed=self.seed, human=self.human, faults=self.faults
        )


_Number = Annotated[str, typer.Option(metavar="NUMBER", help="Whom to call.")]
_Caller = Annotated[str, typer.Option("--from", metavar="NUMBER", help="Who calls.")]
_Url = Annotated[
    str | None,
    typer.Option(help="Base URL of a web process.", show_default="that of `callflow up`"),
]
_Language = Annotated[
    str, typer.Option(callback=parse_language, help="What the caller speaks: en, es, …")
]
_Calls = Annotated[int, typer.Option(min=1, max=10_000, help="Calls; more than one is load.")]
_Rate = Annotated[float, typer.Option(min=0.01, max=1000, help="Calls per second.")]
_Turns = Annotated[
    int | None, typer.Option(min=1, max=1000, help="Things each says, from a script.")
]
_Speed = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        max=1000,
        help="How much faster than life everybody speaks.",
        show_default="10 by hand, 1 from a script",
    ),
]
_Seed = Annotated[
    int | None, typer.Option(help="The same seed gives the same calls.", show_default="any")
]
_Humans = Annotated[HumanAnswer, typer.Option(help="What rung humans do.")]
_Share = Annotated[float, typer.Option(min=0, max=1, metavar="P", rich_help_panel="Mischief")]
_Json = Annotated[
    bool, typer.Option("--json", help="Events as JSON lines; of a load one object at the end.")
]


def phone(
    to: _Number = "+441632960010",
    from_: _Caller = "+441632960999",
    url: _Url = None,
    language: _Language = "en",
    calls: _Calls = 1,
    rate: _Rate = 10.0,
    turns: _Turns = None,
    speed: _Speed = None,
    seed: _Seed = None,
    human: _Humans = HumanAnswer.NEVER,
    repeat: _Share = 0.0,
    delay: _Share = 0.0,
    reorder: _Share = 0.0,
    drop: _Share = 0.0,
    hang_up: _Share = 0.0,
    interrupt: _Share = 0.0,
    give_up: _Share = 0.0,
    as_json: _Json = False,
) -> None:
    """Call a running callflow as a carrier would, and talk: each line is one utterance.

    A line that is one digit, * or # is a key; an empty one is silence; Ctrl-C in the middle of a
    reply interrupts it; Ctrl-D hangs up. With --calls or --turns callers speak from a script. The
    secrets are those of `callflow up`, or from CALLFLOW_TWILIO_AUTH_TOKEN.
    """
    import asyncio

    from callflow.lab.carrier.network_faults import NetworkFaults

    by_hand = calls == 1 and turns is None
    faults = NetworkFaults(repeat, delay, reorder, drop, 0.0, hang_up, interrupt, give_up)
    plan = _Plan(
        *(to, from_, language, calls, rate, turns or 4),
        speed=speed or (TALKING if by_hand else 1.0),
        seed=int.from_bytes(os.urandom(2), "big") if seed is None else seed,
        human=human,
        faults=faults,
        as_json=as_json,
    )
    account = _account(url)
    # Told to end, it hangs up first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise typer.Exit(asyncio.run((_talk if by_hand else _load)(account, plan)))


def _account(url: str | None) -> PhoneAccount:
    """Whom we call and with which secrets, from the local stack and the settings."""
    from callflow import bootstrap
    from callflow.lab.carrier.phone_account import complete_account, read_phone

    settings = bootstrap.settings()
    tokens = settings.webhook_tokens
    api = urlsplit(settings.twilio_api_url or "")
    return complete_account(
        read_phone(settings.data_dir),
        url=url,
        public_url=settings.public_url,
        account_sid=settings.twilio_account_sid,
        auth_token=tokens[0] if tokens else None,
        api_port=(api.port or 0) if api.hostname == "127.0.0.1" else 0,
    )


def open_carrier(
    account: PhoneAccount,
    *,
    speed: float,
    seed: int = 0,
    human: HumanAnswer = HumanAnswer.NEVER,
    faults: NetworkFaults | None = None,
) -> Carrier:
    """A carrier that is set up as `twilio setup` sets the real one up."""
    from callflow.lab.carrier.carrier import Carrier
    from callflow.lab.carrier.simulated_people import HumanBehaviour

    behaviour = HumanBehaviour(human.value, after_s=5.0, talks_s=10.0)
    return Carrier.for_account(
        account, speed=speed, seed=seed, network_faults=faults, human=behaviour
    )


async def _talk(account: PhoneAccount, plan: _Plan) -> int:
    """One call by hand or through a pipe; the exit code."""
    from callflow.lab.carrier.simulated_people import Keyboard, Typist

    typed = sys.stdin.isatty()
    show: Show = JsonLines() if plan.as_json else ConversationPrinter(typed=typed)
    keyboard = Keyboard(sys.stdin.fileno())
    typist = Typist(keyboard.lines)
    async with plan.carrier(account) as carrier:
        call = carrier.place(
            typist,
            to=plan.to,
            from_=plan.from_,
            language=plan.language,
            fillers=fillers(plan.language),
            on_event=show.show_event,
        )
        interrupted = _interrupts(typist, call)
        if typed and not plan.as_json:
            terminal.print_note(
                f"call {call.call_sid} to {plan.to} · Enter alone is silence, one key is a key, "
                "Ctrl-C interrupts, Ctrl-D hangs up"
            )
        keyboard.start()
        try:
            report = await call.ended()
        finally:
            keyboard.stop()
    show.report(report)
    if interrupted.is_set():
        return INTERRUPTED
    return 1 if report.failed else 0


def _interrupts(typist: Typist, call: Call) -> asyncio.Event:
    """Let Ctrl-C cut off what is being said, and hang up where nothing is."""
    import asyncio

    hung_up = asyncio.Event()

    def interrupt() -> None:
        if not typist.interrupt():
            hung_up.set()
            call.hang_up()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    return hung_up


async def _load(account: PhoneAccount, plan: _Plan) -> int:
    """Calls from a script; the exit code."""
    import asyncio

    from callflow.lab.carrier.call_report import LoadResult
    from callflow.lab.carrier.carrier import load

    placed: list[Call] = []
    progress = Progress(plan.calls)
    async with plan.carrier(account) as carrier:
        showing = asyncio.create_task(progress.keep_showing(placed))
        try:
            reports = await load(
                carrier,
                lambda number: _person(plan, number),
                calls=plan.calls,
                rate_per_s=plan.rate_per_s,
                to=plan.to,
                from_=plan.from_,
                placed=placed.append,
            )
        finally:
            showing.cancel()
            progress.end()
    result = LoadResult.of(reports)
    if plan.as_json:
        terminal.print_line(json.dumps({**result.as_dict(), "seed": plan.seed}))
    else:
        terminal.console().print(table(result))
        terminal.print_note(f"the same calls again: --seed {plan.seed}")
    return 0 if result.good else 1


def _person(plan: _Plan, number: int) -> Behaviour:
    from callflow.lab.carrier.simulated_people import Behaviour, script_lines

    return Behaviour(
        script_lines(plan.language, number),
        turns=plan.turns,
        language=plan.language,
        fillers=fillers(plan.language),
        say_again=_phrases(plan.language, ("say_again",)),
    )


def fillers(language: str) -> tuple[str, ...]:
    """The phrases after which a caller goes on waiting."""
    return _phrases(language, FILLERS)


def _phrases(language: str, names: tuple[str, ...]) -> tuple[str, ...]:
    from callflow.responder.phrases import generic

    known = generic(language)
    return tuple(known[name] for name in names)
