"""The pages: links lead somewhere, and commands, settings and paths in them exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from callflow.cli import app
from callflow.settings import PREFIX, Settings

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
TURN_MOST_FILES, TURN_MOST_LINES = 8, 1500
README_MOST_LINES = 150


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def test_the_generated_page_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= README_MOST_LINES


def test_every_link_leads_to_a_file() -> None:
    dead = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page))
        if not (page.parent / target).exists()
    ]
    assert not dead


def test_every_path_of_the_repository_that_a_page_names_exists() -> None:
    named = [
        (page.name, path)
        for page in PAGES
        for path in re.findall(
            r"(?<![\w./])((?:callflow|tests|benchmarks|deploy|docs)/[\w./-]*\w)", text_of(page)
        )
    ]
    assert named
    assert not [(page, path) for page, path in named if not (ROOT / path).exists()]


def test_every_setting_that_a_page_names_exists() -> None:
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    unknown = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"\bCALLFLOW_[A-Z0-9_]*[A-Z0-9]\b", text_of(page))
        if name not in known
        and not name.startswith("CALLFLOW_TEST_")
        # `CALLFLOW_TWILIO_…` stands for several.
        and not any(one.startswith(f"{name}_") for one in known)
    ]
    assert not unknown


def commands_on(page: Path) -> list[list[str]]:
    """The arguments of each `callflow …` in code, without comments."""
    text = text_of(page)
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    code = [line for block in blocks for line in block.splitlines()]
    code += re.findall(r"`([^`\n]+)`", text)
    found = []
    for line in code:
        bare = re.sub(r"^(?:[A-Z_]+=\S+ )*", "", line.strip())
        if bare.startswith("callflow "):
            words = shlex.split(bare.split("  #")[0].split(" # ")[0].replace("…", " "))
            found.append(words[1:])
    return found


def test_every_command_and_option_on_a_page_exists() -> None:
    wrong = []
    for page in PAGES:
        for words in commands_on(page):
            command: Any = typer.main.get_command(app)
            rest = list(words)
            while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
                # `calls note|urgency|end` stands for several.
                command = command.commands.get(rest.pop(0).split("|")[0])
            if command is None:
                wrong.append(f"{page.name}: callflow {' '.join(words)}")
                continue
            known = {name for param in command.params for name in param.opts} | {"--help", "-h"}
            wrong += [
                f"{page.name}: callflow {' '.join(words)}: {option}"
                for option in rest
                if option.startswith("--") and option.split("=")[0] not in known
            ]
    assert not wrong


def test_one_turn_is_followed_through_few_files() -> None:
    path = text_of(ROOT / "docs" / "architecture.md").split("## The path of one turn")[1]
    table = path.split("\n## ")[0]
    files = list(dict.fromkeys(re.findall(r"`(callflow/[\w/]+\.(?:py|lua))`", table)))
    assert 1 < len(files) <= TURN_MOST_FILES, files
    lines = {file: len(text_of(ROOT / file).splitlines()) for file in files}
    assert sum(lines.values()) <= TURN_MOST_LINES, lines


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_a_page_that_everybody_looks_for_is_there(name: str) -> None:
    assert text_of(ROOT / name).startswith("# ")
