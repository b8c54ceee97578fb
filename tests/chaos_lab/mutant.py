"""Copies of callflow with one promise broken on purpose, and `callflow chaos` run on them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

WITHIN_S = 150.0

KEPT = "testimony.json"
"""In the copy's folder: `callflow chaos --judge` judges it again."""


@dataclass(frozen=True)
class Patch:
    """One piece of text that stands once in one file, and what stands there instead."""

    file: str
    """Under `callflow/`."""
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Change the copy. Fails where the text is not there, or not once: then the product has
        changed, and this mutant with it."""
        path = package / self.file
        text = path.read_text(encoding="utf-8")
        assert text.count(self.old) == 1, (
            f"{self.file} has {self.old!r} {text.count(self.old)} times"
        )
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Run:
    """What `callflow chaos` is asked for. `sharper`: changes to the machine that strikes, never to
    what it strikes, so that what is to be shown shows within seconds."""

    strikes: str
    seconds: int = 9
    calls: int = 6
    every_s: float = 0.5
    seed: int = 1
    sharper: tuple[Patch, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """For the command line."""
        return [
            *("chaos", "--json", f"--seed={self.seed}", f"--seconds={self.seconds}"),
            *(f"--calls={self.calls}", f"--strikes={self.strikes}", f"--every={self.every_s:g}"),
        ]


def copy(folder: Path, run: Run, patches: Sequence[Patch] = ()) -> None:
    """Put a copy of callflow there that is changed as `run` and `patches` say."""
    package = folder / "callflow"
    shutil.copytree(ROOT / "callflow", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "celeryconfig.py", folder)
    for patch in (*run.sharper, *patches):
        patch.apply(package)


def chaos(folder: Path, run: Run, patches: Sequence[Patch] = ()) -> dict[str, Any]:
    """Run chaos on a copy of callflow with `patches`; its verdict, with `broken`, the numbers of
    the promises that were not kept."""
    copy(folder, run, patches)
    done = subprocess.run(
        [sys.executable, "-m", "callflow", *run.arguments, f"--testimony={folder / KEPT}"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr[-4000:]
    verdict: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert verdict["good"] is (done.returncode == 0)
    promises = verdict["promises"].items()
    verdict["broken"] = {int(number) for number, found in promises if found["failed"]}
    return verdict
