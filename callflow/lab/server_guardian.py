"""Holds the owner's ends of the pipes to `server_guardian.sh`, which runs one server.

The owner's death closes its pipe, and the kernel does that whatever killed it: no parent-death
signal (Linux only, and tied to a thread) and no exit handler (skipped by SIGKILL) is needed.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import weakref
from pathlib import Path

_SCRIPT = Path(__file__).with_suffix(".sh")
_END_DEADLINE_S = 30.0

_guardians: weakref.WeakSet[ServerGuardian] = weakref.WeakSet()


class ServerGuardian:
    """One guardian process and, once `run` was called, the one server that it runs.

    `lock_fd` is handed on to guardian and server. A guardian is used once: `end` is final.
    """

    def __init__(self, binary: Path, scratch: Path | None, lock_fd: int) -> None:
        order_read, self._orders = os.pipe()
        self._pids, pid_write = os.pipe()
        self._life, life_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", str(_SCRIPT), str(binary), str(scratch or "")],
                stdin=order_read,
                stdout=pid_write,
                stderr=life_write,
                pass_fds=(lock_fd,),
                # Ctrl-C reaches the owner, which may still want to write before the server ends.
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            self._close()
            raise
        finally:
            for fd in (order_read, pid_write, life_write):
                os.close(fd)
        self._last_output = b""
        _guardians.add(self)

    def run(self, config: str) -> int:
        """Start the server with `config` (lines, none of them empty) and return its process id."""
        os.write(self._orders, config.encode() + b"\n")
        return int(os.read(self._pids, 32))

    def ended(self, timeout_s: float) -> bool:
        """True as soon as the server has ended; False when it still lives after `timeout_s`."""
        while self._life >= 0:
            if not select.select([self._life], [], [], timeout_s)[0]:
                return False
            said = os.read(self._life, 4096)
            if not said:
                return True
            self._last_output += said
        return True

    @property
    def last_output(self) -> str:
        """What the server printed before it had its log file, such as errors in its settings."""
        return self._last_output.decode(errors="replace").strip()

    def end(self, *, keep_scratch: bool = False) -> None:
        """End the server and the guardian; remove the scratch directory. Twice is once."""
        if self._orders < 0:
            return
        with contextlib.suppress(BrokenPipeError):  # The guardian is gone already.
            if keep_scratch:
                os.write(self._orders, b"keep\n")
        self._close()
        self._process.wait(_END_DEADLINE_S)

    def forget(self) -> None:
        """In a forked child: let go of the pipes, so that only the owner keeps the server alive."""
        self._close()
        self._process.returncode = 0  # Not our child: nothing to wait for, nothing to warn about.

    def _close(self) -> None:
        for fd in (self._orders, self._pids, self._life):
            if fd >= 0:
                os.close(fd)
        self._orders = self._pids = self._life = -1


def _forget_all() -> None:
    for guardian in list(_guardians):
        guardian.forget()


# A pool that forks (Celery's prefork, multiprocessing) copies the pipe into children that may
# outlive a killed owner.
os.register_at_fork(after_in_child=_forget_all)
