"""`callflow call`: call in from a terminal or through a pipe, wherever the calls are.

It is `callflow phone` with what it calls brought along: a whole local stack where no server is
found, a web process of its own where there is a server and no telephone.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from callflow.cli import deployment, terminal
from callflow.cli.phone import ConversationPrinter, fillers, open_carrier, parse_language
from callflow.errors import CallEnded, CallError, CallflowError, StoreUnavailable, UnknownCall

if TYPE_CHECKING:
    from callflow.call.record import CallRecord
    from callflow.lab.carrier.carrier_call import Call
    from callflow.lab.carrier.phone_account import PhoneAccount
    from callflow.lab.carrier.phone_line import CallerLine
    from callflow.lab.stack import LocalStack

REPLY_WITHIN_S: Final = 20.0
"""From what was said, or from the last piece of the reply, to the next piece of it."""

SPEED: Final = 1000.0
"""How much faster than life everybody speaks: whoever types does not wait for speech."""

_ANY_NUMBER: Final = "+441632960010"
_LOOK_S: Final = 0.25
_WEB_WITHIN_S: Final = 30.0
_NOWHERE: Final = "http://127.0.0.1:1"


class NoReply(CallError):
    """Nothing was answered for so long that somebody has to look."""

    def __init__(self, call_sid: str, turn: int, within_s: float) -> None:
        self.turn = turn
        super().__init__(
            call_sid,
            f"got no reply to turn {turn} within {within_s:.0f} s: what was said is stored; "
            "`callflow doctor` tells what is wrong",
        )


class NoTelephone(CallflowError):
    """No web process can be called, or started to be."""


def call(
    site: Annotated[str | None, typer.Option(help="Which lift calls: the id of a site.")] = None,
    language: Annotated[
        str, typer.Option(callback=parse_language, help="What the caller speaks: en, de, …")
    ] = "en",
    call_sid: Annotated[
        str | None,
        typer.Option(metavar="CALLSID", help="Go on with this call, or give a new one its name."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the call open at the end of input.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON line for each event.")
    ] = False,
) -> None:
    """Call in and talk: each line is one utterance, an empty one is silence, Ctrl-D hangs up.

    Ctrl-C leaves the call open. Through a pipe replies come on stdout, all else on stderr. Where no
    server is found a local stack is started for as long as the call lasts.
    """
    import asyncio

    from callflow import bootstrap
    from callflow.call.state import CallState
    from callflow.store.keys import call_keys

    sid = call_sid if call_sid is not None else f"CA{os.urandom(16).hex()}"
    call_keys(sid)  # Raises InvalidCallSid now: nothing has to be started to find that out.
    talk = TypedCall(sid, keep=keep, as_json=as_json)
    with ExitStack() as running:
        phone, lasting = _open_telephone(talk, running)
        before = bootstrap.reader().find(sid)
        if before is not None and before.call_state is CallState.COMPLETE:
            raise CallEnded(sid, "hear")
        at = site or (None if before is None else before.site)
        to = _number_of(Path(str(phone["sites"])), at, language, talk)
        try:
            asyncio.run(talk.run(phone, before, to, language))
        finally:
            if talk.left_open and lasting:
                talk.note(f"the call stays open: callflow call --call-sid {sid}")
    if talk.interrupted:
        raise typer.Exit(terminal.INTERRUPTED)
    if talk.failed:
        raise typer.Exit(terminal.FAILED)


def _open_telephone(talk: TypedCall, running: ExitStack) -> tuple[dict[str, object], bool]:
    """How the web process to be called is reached, as `up` leaves word of it; True where the call
    may outlive us. Starts what is missing. Raises StoreUnfit and NoTelephone."""
    from callflow import bootstrap
    from callflow.health.server_checks import refuse_unfit
    from callflow.lab.carrier.phone_account import plan_phone, read_phone
    from callflow.lab.stack import LocalStack, free_port

    settings = bootstrap.settings()
    url = deployment.find()
    if url is not None:
        refuse_unfit(bootstrap.client())
        if not bootstrap.leases().present_now():
            talk.note("no worker is at work there: replies come once one is started")
        if settings.redis_url is None and (left := read_phone(settings.data_dir)):
            return left, True
    if importlib.util.find_spec("uvicorn") is None:
        raise NoTelephone("the telephone is not installed: pip install 'callflow[web]'")
    line = plan_phone(settings, free_port())
    if url is None:
        from callflow.cli.local_stack import Size, SupervisedStack

        bootstrap.library()  # Workers would not start with a bad procedure, and say so in a log.
        talk.note("no server is configured or running here: starting a local stack for this call …")
        size = Size(workers=1, slots=2, pool="threads")
        local = SupervisedStack(None, size, threading.Event(), running)
        local.start_server()
        local.start_processes(phone=line)
        if not local.wait_until_at_work(talk.note):
            talk.note(f"the local stack is slow: what it says is in {local.log_dir}")
        return line.as_dict(), False
    logs = Path(running.enter_context(TemporaryDirectory(prefix="callflow-call-")))
    stack = running.enter_context(LocalStack({deployment.URL_VARIABLE: url, **line.env}, logs))
    _start_web(stack, line.port)
    return line.as_dict(), True


def _start_web(stack: LocalStack, port: int) -> None:
    from callflow.cli.local_stack import is_listening

    web = stack.start_web(port)
    give_up = time.monotonic() + _WEB_WITHIN_S
    while not is_listening(port):
        if not web.alive or time.monotonic() > give_up:
            raise NoTelephone(f"the web process for this call does not start: {web.last_lines(1)}")
        time.sleep(_LOOK_S / 5)


def _number_of(file: Path, site: str | None, language: str, talk: TypedCall) -> str:
    """The number to call: that of `site`, or of a site where `language` is spoken."""
    from callflow.call.language_tag import same_language
    from callflow.cli.twilio_commands import choose_site
    from callflow.sites.directory import Sites
    from callflow.sites.site import ANY

    sites = Sites.load(file)
    if site is not None:
        number = choose_site(sites, site).called[0]
        return _ANY_NUMBER if number == ANY else number
    unnamed = sites.find(_ANY_NUMBER, "")
    spoken = "en" if unnamed is None else unnamed.language
    if same_language(spoken, language):
        return _ANY_NUMBER
    for each in sites:
        if same_language(each.language, language) and each.called[0] != ANY:
            return each.called[0]
    talk.note(f"no lift is answered in {language}: the call is opened in {spoken}")
    return _ANY_NUMBER


class TypedCall:
    """One call as its caller lives it. Follows the carrier's events, and the record for what a
    carrier does not know.

    For people it looks as it does in `callflow phone`. For programs each event is an object, told
    apart by `event`: opened, greeting, heard, reply (whole each time; `done` for the last of a
    turn), human_wanted, note, and as the last one human_took_over or ended.
    """

    def __init__(self, call_sid: str, *, keep: bool, as_json: bool) -> None:
        self.call_sid = call_sid
        self.left_open = self.interrupted = self.failed = False
        self._keep = keep
        self._as_json = as_json
        self._terminal = terminal.console().is_terminal
        self._typed = self._terminal and sys.stdin is not None and sys.stdin.isatty()
        self._show = ConversationPrinter(typed=self._typed)
        self._turn = self._turns_before = 0
        self._opened = self._known = self._human_took_over = self._prompted = False
        self._reply: str | None = None
        """What has come of a reply; None before the caller has spoken, and after the reply."""
        self._give_up: float | None = None
        """When no reply will come any more (monotonic, s); None while none is awaited."""
        self._needs_human: str | None = None

    def note(self, text: str) -> None:
        """Tell something about the machinery, not the call."""
        self._emit("note", text, text=text)

    async def run(
        self, phone: Mapping[str, object], before: CallRecord | None, to: str, language: str
    ) -> None:
        """Call `to` and say each line of stdin, until either side ends the call. Raises NoReply."""
        import asyncio

        from callflow.lab.carrier.simulated_people import Keyboard, Typist

        if before is not None:
            self._known, self._turns_before = True, before.heard
        stdin = os.open(os.devnull, os.O_RDONLY) if sys.stdin is None else sys.stdin.fileno()
        keyboard = Keyboard(stdin)
        self._typist = Typist(keyboard.lines)
        async with open_carrier(_account(phone), speed=SPEED) as self._carrier:
            placed = self._carrier.place(
                self,
                to=to,
                call_sid=self.call_sid,
                language=language,
                fillers=fillers(language),
                on_event=self._follow,
            )
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGINT, self._interrupt, placed)
            keyboard.start()
            watching = asyncio.create_task(self._watch(placed))
            try:
                self.failed = (await placed.ended()).failed
            finally:
                keyboard.stop()
                watching.cancel()
                await asyncio.wait({watching})
        if not watching.cancelled():
            watching.result()
        if not self.left_open and not self._human_took_over:
            if self._reply:
                self._end_reply()
            outcome = (await asyncio.to_thread(self._read)).outcome or "unknown"
            words = f"the call is over: {outcome.replace('_', ' ')}"
            self._emit("ended", words, outcome=outcome)

    async def live(self, line: CallerLine) -> None:
        """Type until the input ends, or the call: the carrier's view of the person."""
        await self._typist.live(line)
        if self._keep and not line.over:
            self._leave()

    def _leave(self) -> None:
        """Let go of the call without a word to the application, as when the carrier fails."""
        self.left_open = True
        self._carrier.targets[:] = [_NOWHERE]

    def _interrupt(self, placed: Call) -> None:
        self.interrupted = True
        self._leave()
        placed.hang_up()

    async def _watch(self, placed: Call) -> None:
        """Look for a human who has the call, and for a reply that does not come. A server that
        goes away is waited for like a slow worker."""
        import asyncio

        while True:
            await asyncio.sleep(_LOOK_S)
            if self._give_up is not None and time.monotonic() > self._give_up:
                self._leave()
                placed.hang_up()
                raise NoReply(self.call_sid, self._turn, REPLY_WITHIN_S)
            try:
                record = await asyncio.to_thread(self._read)
            except (StoreUnavailable, UnknownCall):
                continue
            if record.handling == "human" and record.outcome is None:
                # There is no line here on which the human could speak: for us the call ends.
                self._human_took_over = True
                reason = record.needs_human or "unknown"
                words = f"a human has this call now: {reason}"
                self._emit("human_took_over", words, reason=reason)
                placed.hang_up()
                return

    def _follow(self, event: str, facts: Mapping[str, object]) -> None:
        """Take an event of the carrier; see `callflow.lab.carrier`."""
        if self.left_open or self._human_took_over:
            return
        text = str(facts.get("text", ""))
        if event in ("heard", "listens"):
            self._open()
        if event == "said":
            self._turn = self._turns_before + int(str(facts["turn"]))
            self._reply = ""
            self._prompted = False
            self._await_reply()
        if not self._as_json:
            self._show_event(event, facts)
        match event:
            case "said":
                self._emit("heard", turn=self._turn)
            case "heard" if facts["kind"] in ("say", "gather", "relay") and not facts["filler"]:
                self._hear(f" {text}" if self._reply and text else text)
            case "token":
                self._hear(text)
            case "listens":
                self._end_reply()
            case "failure" | "session_lost" if self._as_json:
                self.note(str(facts["reason"]))

    def _show_event(self, event: str, facts: Mapping[str, object]) -> None:
        """Through a pipe each line that is said is answered by one line, once it is whole: what is
        no reply stands beside them."""
        if self._terminal and event != "status":
            self._show.show_event(event, facts)
            self._prompted = self._typed and (event == "listens" or self._prompted)
        elif event == "heard" and (self._reply is None or facts.get("filler")):
            self.note(str(facts["text"]))
        elif event in ("failure", "session_lost"):
            self.note(str(facts["reason"]))

    def _hear(self, text: str) -> None:
        if not text:
            return
        if self._reply is None:
            self._emit("greeting", text=text)
        else:
            self._await_reply()
            self._reply += text
            self._emit_reply(done=False)

    def _await_reply(self) -> None:
        self._give_up = time.monotonic() + REPLY_WITHIN_S

    def _end_reply(self) -> None:
        self._give_up = None
        if self._reply is None:
            return
        self._emit_reply(done=True)
        if not (self._as_json or self._terminal):
            terminal.print_line(terminal.plain(self._reply))
        self._reply = None
        reason = self._read().needs_human
        if reason is not None and reason != self._needs_human:
            self._needs_human = reason
            self._emit("human_wanted", f"marked for a human: {reason}", reason=reason)

    def _emit_reply(self, *, done: bool) -> None:
        self._emit("reply", turn=self._turn, text=self._reply, done=done, worker=None)

    def _open(self) -> None:
        """Say which call it is, once the application has answered it; show the thread so far."""
        if self._opened:
            return
        self._opened = True
        record = self._read()
        at = f" from {record.site}" if record.site else ""
        how = "was opened before" if self._known else f"is open, in {record.language}{at}"
        ways = " · Enter alone is silence, Ctrl-D hangs up" if self._typed else ""
        words = f"call {self.call_sid} {how}{ways}"
        whole = record.model_dump(mode="json")
        self._emit("opened", words, call_sid=self.call_sid, known=self._known, record=whole)
        if self._known and not self._as_json:
            terminal.console(sys.stderr).print(terminal.render_transcript(record))

    def _emit(self, event: str, words: str = "", **facts: object) -> None:
        if self._as_json:
            terminal.print_line(json.dumps({"event": event, **facts}, ensure_ascii=False))
        elif words:
            if self._prompted:
                terminal.print_line("")
                self._prompted = False
            terminal.print_note(terminal.plain(words))

    def _read(self) -> CallRecord:
        from callflow import bootstrap

        return bootstrap.reader().read(self.call_sid)


def _account(phone: Mapping[str, object]) -> PhoneAccount:
    from callflow import bootstrap
    from callflow.lab.carrier.phone_account import complete_account

    settings = bootstrap.settings()
    tokens = settings.webhook_tokens or (("unsigned",) if settings.unsigned else ())
    sid, token = settings.twilio_account_sid, tokens[0] if tokens else None
    return complete_account(phone, account_sid=sid, auth_token=token)
