"""An operator edits a procedure while calls are being answered."""

from __future__ import annotations

import logging
import shutil
from importlib.resources import files
from pathlib import Path

import pytest

from callflow.procedures import library
from callflow.procedures.library import Reloader, SopLibrary
from tests.waiting import wait_until


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An operator's folder with one procedure that replaces ours; looked at without a pause."""
    monkeypatch.setattr(library, "CHECK_S", 0.0)
    shipped = files("callflow.procedures").joinpath("sops", "power_failure.md")
    (tmp_path / "power_failure.md").write_bytes(shipped.read_bytes())
    return tmp_path


def _title(library: SopLibrary) -> str:
    return library.documents["power_failure"].front.title


def _edit(folder: Path, old: str, new: str) -> None:
    path = folder / "power_failure.md"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_change_reaches_a_running_process(folder: Path) -> None:
    kept = Reloader(folder, SopLibrary.load(folder), _title)
    before = kept.current()
    _edit(folder, f"title: {before}", "title: Dark")
    wait_until(lambda: kept.current() == "Dark", "the change was not read")
    (folder / "power_failure.md").unlink()
    wait_until(lambda: kept.current() == before, "the shipped procedure did not come back")


def test_a_mistake_leaves_the_procedures_as_they_were_and_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kept = Reloader(folder, SopLibrary.load(folder), _title)
    before = kept.current()
    with caplog.at_level(logging.ERROR):
        _edit(folder, "### Ask", "### Aks")

        def named() -> bool:
            assert kept.current() == before
            return "power_failure.md" in caplog.text

        wait_until(named, "the mistake was not named")
    assert caplog.text.count("stay as they were") == 1
    _edit(folder, "### Aks", "### Ask")
    _edit(folder, f"title: {before}", "title: Dark")
    wait_until(lambda: kept.current() == "Dark", "the mended procedure was not read")


def test_a_folder_that_vanishes_leaves_the_procedures_as_they_were(folder: Path) -> None:
    kept = Reloader(folder, SopLibrary.load(folder), _title)
    before = kept.current()
    shutil.rmtree(folder)
    assert kept.current() == before


def test_without_a_folder_nothing_is_looked_for() -> None:
    kept = Reloader(None, SopLibrary.load(), _title)
    assert kept.current() == kept.current()
