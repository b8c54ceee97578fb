"""Two hundred calls, workers that are killed, and a browser before it: the board is never wrong.

What it shows is compared with the journals, which say to the millisecond what was so: a row may be
a second late, and nothing else.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Page

from callflow.lab.stack import free_port
from callflow.redis.client import connect
from callflow.store.reader import CallReader
from tests.board_app import password_of, write_users
from tests.browser.scene import SITES
from tests.browser.truth import State, between, could_be_last, states
from tests.parts import Parts
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(300),
    pytest.mark.leaves_live_calls,
]

CALLS = 200
LATE_MS = 1_000
"""So much older than the record a row may be."""
WATCHED_S = 25.0
FRESH_SHARE = 0.9

PLACES = ("tower", "mill", "station", "hospital", "renmin")

# Everything that a row says of its call, read in one step, so that it is of one moment.
ROWS = """() => [
  [...document.querySelectorAll('#calls tbody tr')].map(row => {
    const said = name => {
      const part = row.querySelector(`[data-part=${name}]`);
      return part.hidden ? '' : part.textContent;
    };
    return [row.dataset.sid, row.dataset.state, said('worker'), said('words')];
  }),
  Number(document.body.dataset.asOf),
  document.body.classList.contains('stale'),
]"""

# Keeps each change of a row's state or worker, and no moment between two looks is missed.
WATCH = """() => {
  window.changes = [];
  const seen = new Map();
  const look = () => {
    for (const row of document.querySelectorAll('#calls tbody tr')) {
      const worker = row.querySelector('[data-part=worker]');
      const now = `${row.dataset.state} ${worker.hidden ? '' : worker.textContent}`;
      if (seen.get(row) !== now) {
        seen.set(row, now);
        window.changes.push([row.dataset.sid, row.dataset.state, worker.textContent]);
      }
    }
  };
  new MutationObserver(look).observe(document.querySelector('#calls tbody'),
    {subtree: true, childList: true, characterData: true, attributes: true});
  look();
}"""


@dataclass
class Crowd:
    """Callers who speak again when they were answered and have thought."""

    parts: Parts
    sids: list[str]
    chance: random.Random = field(default_factory=lambda: random.Random(6))
    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[Exception] = field(default_factory=list)

    @contextmanager
    def calling(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join(20)
        assert not self.errors

    def _run(self) -> None:
        try:
            for number, sid in enumerate(self.sids):
                self.parts.intake.open(sid, site=PLACES[number % len(PLACES)])
            due = {sid: time.monotonic() + self.chance.uniform(0, 12) for sid in self.sids}
            while not self.stop.wait(0.05):
                now = time.monotonic()
                ready = [sid for sid, at in due.items() if at <= now]
                for sid, record in self.parts.reader.find_all(ready).items():
                    if record.heard == record.answered:
                        turn = record.heard + 1
                        self.parts.intake.hear(sid, turn, f"we are stuck, this is my word {turn}")
                    due[sid] = now + self.chance.uniform(9, 17)
        except Exception as error:
            self.errors.append(error)


@dataclass(frozen=True)
class Sample:
    """What the board showed between two moments of the server's clock."""

    from_ms: int
    to_ms: int
    rows: dict[str, tuple[str, str, str]]
    as_of_ms: int
    """of which moment it says to be"""
    stale: bool

    @property
    def fresh(self) -> bool:
        """A machine that is too busy shows old data, and says so: that is judged by itself."""
        return self.to_ms - self.as_of_ms <= LATE_MS


def sampled(page: Page, parts: Parts) -> Sample:
    from_ms = parts.reader.now_ms()
    found, as_of_ms, stale = page.evaluate(ROWS)
    rows = {sid: (word, who, said) for sid, word, who, said in found}
    return Sample(from_ms, parts.reader.now_ms(), rows, as_of_ms, stale)


@contextmanager
def board_of(stack: Running, folder: Path, browser: Browser, port: int) -> Iterator[Page]:
    stack.stack.start_web(port)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(f"{url}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    wait_until(answers, "the web process did not come up", within_s=40)
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.goto(f"{url}/board")
    page.fill("#name", "bo")
    page.fill("#password", password_of("bo"))
    page.press("#password", "Enter")
    page.wait_for_selector("body[data-alarm]")
    try:
        yield page
    finally:
        context.close()


def test_the_board_equals_the_record_while_workers_die(tmp_path: Path, chromium: Browser) -> None:
    port = free_port()
    (tmp_path / "sites.yaml").write_text(SITES, encoding="utf-8")
    env = {
        "CALLFLOW_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "CALLFLOW_BOARD_URL": f"http://127.0.0.1:{port}",
        "CALLFLOW_SITES": str(tmp_path / "sites.yaml"),
        "CALLFLOW_TWILIO_AUTH_TOKEN": "test-auth-token-not-a-secret",
        "CALLFLOW_USERS": str(write_users(tmp_path / "users.yaml", bo="dispatcher")),
    }
    sids = [f"CA{number:032x}" for number in range(CALLS)]
    complaints: list[str] = []
    killed: list[tuple[str, int]] = []
    samples: list[Sample] = []
    with running(
        tmp_path, workers=3, slots=6, pool="threads", env=env, responder="counted", pace_s="0.5"
    ) as stack:
        with board_of(stack, tmp_path, chromium, port) as page, connect(stack.url) as client:
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on(
                "console", lambda one: complaints.append(one.text) if one.type == "error" else None
            )
            page.evaluate(WATCH)
            with Crowd(Parts(client, stack.parts.timing), sids).calling():
                wait_until(
                    lambda: page.locator("#calls tbody tr").count() == CALLS,
                    "not every call is on the board",
                    within_s=30,
                )
                began = time.monotonic()
                strikes = [began + 4, began + 12]
                while time.monotonic() < began + WATCHED_S:
                    samples.append(sampled(page, stack.parts))
                    if strikes and time.monotonic() > strikes[0]:
                        strikes.pop(0)
                        killed += strike(stack, f"w{1 + len(strikes)}")
                    page.wait_for_timeout(200)
            changes = page.evaluate("() => window.changes")
            journals = CallReader(stack.parts.client).journals(sids)
            records = stack.parts.reader.find_all(sids)
    told = {sid: states(journal) for sid, journal in journals.items()}

    assert not complaints
    wrong: list[tuple[object, ...]] = []
    fresh = [sample for sample in samples if sample.fresh]
    assert len(fresh) >= FRESH_SHARE * len(samples), f"{len(fresh)} of {len(samples)} were fresh"
    for sample in fresh:
        since, until = sample.from_ms - LATE_MS, sample.to_ms
        assert not sample.stale
        assert sample.rows.keys() == set(sids)
        for sid, (word, worker, said) in sample.rows.items():
            if (word.replace("_", " "), worker) not in between(told[sid], since, until):
                wrong.append((sid, word, worker, between(told[sid], since, until)))
            elif said and not could_be_last(records[sid], said, since, until):
                wrong.append((sid, said))
    print(f"{len(samples)} looks, {len(fresh)} of them fresh, {len(wrong)} rows wrong")
    assert not wrong, f"{len(wrong)} of {len(fresh) * CALLS} rows were wrong: {wrong[:5]}"
    the_dead_are_replaced(changes, told, killed)


def strike(stack: Running, name: str) -> list[tuple[str, int]]:
    """Kill a worker, and start it anew. Returns the calls that it had."""
    held = [
        record
        for record in stack.parts.reader.active()
        if (record.assigned_worker or "").startswith(f"{name}@")
    ]
    at = stack.parts.reader.now_ms()
    stack.stack.processes[name].kill()
    stack.stack.start_worker(name, slots=6, pool="threads")
    return [(record.call_sid, at) for record in held]


def the_dead_are_replaced(
    changes: list[list[str]], told: dict[str, list[State]], killed: list[tuple[str, int]]
) -> None:
    """The board showed them as recovering, and then with their new worker."""
    shown: dict[str, list[tuple[str, str]]] = {}
    for sid, word, worker in changes:
        shown.setdefault(sid, []).append((word, worker))
    recovered = 0
    for sid, at in killed:
        later = [one for one in told[sid] if one.at >= at]
        lost = next((n for n, one in enumerate(later) if one.word == "recovering"), None)
        if lost is None or lost + 1 >= len(later):
            continue  # It was answered in the very moment of the strike.
        new = later[lost + 1]
        assert (new.word, new.worker) in shown[sid], f"{sid}: {new} was not shown"
        if new.at - later[lost].at > LATE_MS:
            assert ("recovering", "") in [(word, "") for word, _ in shown[sid]]
        recovered += any(word == "recovering" for word, _ in shown[sid])
    assert killed
    assert recovered, "no call of a killed worker was shown as recovering"
