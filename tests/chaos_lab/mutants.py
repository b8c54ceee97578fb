"""What is broken on purpose, one promise at a time, and the strikes that make it show."""

from __future__ import annotations

from dataclasses import dataclass

from tests.chaos_lab.mutant import Patch, Run

BUSY = (
    # Fewer processes, shorter calls and longer turns: more of the strikes hit something.
    Patch("lab/chaos/chaos_plan.py", "0.5\n    workers: int = 3", "0.5\n    workers: int = 2"),
    Patch("lab/chaos/chaos_plan.py", "beats: int = 2", "beats: int = 1"),
    Patch("lab/chaos/chaos_plan.py", "1\n    pace_s: float = 0.3", "1\n    pace_s: float = 0.6"),
    Patch("lab/chaos/simulated_callers.py", "TURNS: Final = (2, 6)", "TURNS: Final = (2, 3)"),
    Patch(
        "lab/chaos/simulated_callers.py",
        "THINK_S: Final = (0.4, 2.0)",
        "THINK_S: Final = (0.2, 0.8)",
    ),
)
ALL_SOCKETS = Patch(
    "lab/chaos/chaos_plan.py", "relay_share: float = 0.5", "relay_share: float = 1.0"
)
LONG_AWAY = Patch("lab/chaos/strikes.py", "away_s = dice.uniform(0.5, 4.0)", "away_s = 8.0")
UNTIL_A_SLOWER_ONE_ANSWERS = (
    # Of two workers at one turn, the one that has lost it is the first to end it. There is room for
    # all that the slower one has to take over.
    Patch("lab/chaos/chaos_plan.py", "2\n    slots: int = 4", "2\n    slots: int = 6"),
    Patch(
        "lab/chaos/environment.py",
        '{**shared, "CALLFLOW_REDIS_URL": self.redis_urls[name]}',
        '{**shared, "CALLFLOW_REDIS_URL": self.redis_urls[name], '
        '"CALLFLOW_PACE_S": "0.7" if name == "w1" else "1.5"}',
    ),
    Patch(
        "lab/chaos/strikes.py",
        """A machine pauses: at times for longer than anybody waits for it, at times not.\"\"\"
    length_s = dice.uniform(1.0, env.plan.stale_after_s + 2.0)
    name = await env.find_worker(dice)""",
        """A machine pauses.\"\"\"
    length_s = env.plan.stale_after_s + dice.uniform(1.7, 2.2)
    name = ""
    while name != "w1":
        name = await env.find_worker(dice)""",
    ),
)
AT_ONCE = Patch(
    "lab/chaos/strikes.py", "dice.uniform(0.0, 2 * env.plan.pace_s)", "dice.uniform(0.0, 0.1)"
)
OF_UTTERANCES = (
    Patch("lab/chaos/strikes.py", "dice.randint(2, 10)", "dice.randint(1, 2)"),
    Patch("lab/chaos/strikes.py", 'count, "EVALSHA"', 'count, \'"role":"caller"\''),
)
ALL_AT_THE_CALLS = Patch(
    "lab/chaos/strikes.py", "AT_THE_BROKER: Final = 0.3", "AT_THE_BROKER: Final = 0.0"
)

DEATHS = Run("child-kill", seconds=12, sharper=(*BUSY, ALL_SOCKETS))
UNWATCHED = Run("child-kill,beat-kill", seed=3, sharper=(*BUSY, LONG_AWAY))
"""With this seed the beat is killed first, and two children while it is away."""
FREEZES = Run(
    "worker-freeze",
    seconds=14,
    calls=6,
    sharper=(*BUSY, ALL_SOCKETS, *UNTIL_A_SLOWER_ONE_ANSWERS),
)
POISON = Run("poison", calls=2, sharper=(*BUSY, AT_ONCE))
OUTAGES = Run("server-kill", sharper=BUSY)
ANSWERS_LOST = Run("drop-replies", sharper=(*BUSY, *OF_UTTERANCES, ALL_AT_THE_CALLS))
MESSAGES_LOST = Run("broker-kill", sharper=BUSY)

RUNS = {
    "deaths": DEATHS,
    "unwatched": UNWATCHED,
    "freezes": FREEZES,
    "poison": POISON,
    "outages": OUTAGES,
    "answers lost": ANSWERS_LOST,
    "messages lost": MESSAGES_LOST,
}


@dataclass(frozen=True)
class Mutant:
    """One change for the worse. `promises`: one of these must be found broken."""

    run: Run
    promises: frozenset[int]
    patches: tuple[Patch, ...]


MUTANTS = {
    "an utterance is acknowledged and not kept": Mutant(
        OUTAGES,
        frozenset({1}),
        (Patch("web/webhooks.py", "UnstoredInput(said, turn.since_ms or now_ms())", "None"),),
    ),
    "an utterance is stored as often as it arrives": Mutant(
        ANSWERS_LOST,
        frozenset({2}),
        (Patch("store/lua/record_utterance.lua", "and a.turn <= heard", "and a.turn < heard"),),
    ),
    "nobody checks a fence": Mutant(
        FREEZES,
        frozenset({2, 3}),
        (
            Patch(
                "store/lua/prelude.lua",
                "call.ours = fence == call.fence and (claim == '' or claim == call.claim)",
                "call.ours = true",
            ),
            Patch("heartbeat.py", "- self.beaten_at > self.trusted_s", "< 0"),
        ),
    ),
    "nobody sweeps where beat does not": Mutant(
        UNWATCHED,
        frozenset({3}),
        (Patch("worker.py", "update((Understudy, WorkerReporter))", "update((WorkerReporter,))"),),
    ),
    "a dead worker is only noticed by its silence": Mutant(
        DEATHS,
        frozenset({3}),
        (Patch("watchdog.py", "if late and found.presence_counts:", "if False:"),),
    ),
    "what is owed stands nowhere but in its message": Mutant(
        MESSAGES_LOST,
        frozenset({3}),
        (
            Patch(
                "store/lua/record_utterance.lua",
                "redis.call('ZADD', key.owed, now + a.owed_ms, a.call_sid)",
                "",
            ),
        ),
    ),
    "a worker gives up when its broker goes": Mutant(
        MESSAGES_LOST,
        frozenset({4}),
        (
            Patch(
                "../celeryconfig.py",
                "broker_connection_max_retries = None",
                "broker_connection_max_retries = 0",
            ),
        ),
    ),
    "what was said of a reply is not read back": Mutant(
        DEATHS,
        frozenset({3, 5}),
        (
            Patch(
                "turn.py",
                'text = record.draft.text if record.draft and record.draft.turn == turn else ""',
                'text, record = "", record.model_copy(update={"draft": None})',
            ),
        ),
    ),
    "the conversation is not read back": Mutant(
        DEATHS,
        frozenset({5}),
        (
            Patch(
                "store/lua/claim.lua", "'LRANGE', key.thread, 0, -1", "'LRANGE', key.thread, -1, -1"
            ),
        ),
    ),
    "a turn may kill as many workers as it likes": Mutant(
        POISON,
        frozenset({6}),
        (
            Patch("call/limits.py", "SCRIPT_AT_ATTEMPTS = 3", "SCRIPT_AT_ATTEMPTS = 300"),
            Patch("call/limits.py", "HUMAN_AT_ATTEMPTS = 4", "HUMAN_AT_ATTEMPTS = 400"),
        ),
    ),
    "nothing is said while a reply is awaited": Mutant(
        FREEZES,
        frozenset({7}),
        (
            Patch(
                "settings.py",
                "reply_wait_s: float = Field(2.5,",
                "reply_wait_s: float = Field(9,",
            ),
        ),
    ),
    "a journal stays for ever": Mutant(
        POISON,
        frozenset({8}),
        (
            Patch(
                "store/lua/end_call.lua",
                "ipairs({key.call, key.thread, key.journal})",
                "ipairs({key.call, key.thread})",
            ),
        ),
    ),
}
