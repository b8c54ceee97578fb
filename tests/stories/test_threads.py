"""The same with a pool of threads: one process, many turns, one heartbeat for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack_parts import running


@pytest.mark.stack
def test_a_worker_with_threads_dies_and_all_its_calls_go_on(tmp_path: Path) -> None:
    sids = [f"CA2000000000000000000000000000000{number}" for number in range(4)]
    with running(tmp_path, workers=2, slots=8, pool="threads", pace_s="0.4") as stack:
        for sid in sids:
            stack.caller_says(sid, 1, "we are stuck please help")
        held = [stack.being_answered(sid) for sid in sids]
        victim = stack.process_of(held[0])

        victim.kill()

        for sid in sids:
            assert stack.reply(sid, 1).done
            assert stack.parts.events(sid).count("committed") == 1
        hit = [record.call_sid for record in held if stack.process_of(record) is victim]
        assert any("reclaimed" in stack.parts.events(sid) for sid in hit)
