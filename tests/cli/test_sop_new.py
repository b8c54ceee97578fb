"""`callflow sop new` begins a procedure that cannot go live before it is filled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callflow.procedures.library import SopLibrary
from tests.cli.running import Cli, Ran

WORDS = {
    "en": ("it hums and smells of eggs", "Is there a smell of gas?", "Please leave the doors."),
    "zh": ("有一股臭鸡蛋味", "您闻到煤气味吗？", "请不要碰门。"),
    "es": ("huele a huevo podrido", "¿Huele a gas?", "No toque las puertas."),
}


def begun(cli: Cli, *args: str) -> tuple[Path, Ran]:
    ran = cli.run("sop", "new", "gas_leak", "--dir", str(cli.home / "own"), *args)
    assert ran.code == 0, ran
    return cli.home / "own" / "gas_leak.md", ran


def fill(path: Path) -> None:
    """Write a sentence into every bullet that the template leaves empty."""
    language, number, lines = "", 0, []
    for line in path.read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"## (\w+)", line):
            language, number = found[1], 0
        if line == "-":
            line, number = f"- {(*WORDS[language], 'A person at once.')[number]}", number + 1
        lines.append(line)
    path.write_text("\n".join(lines), encoding="utf-8")


def test_the_path_comes_on_stdout_and_what_to_do_on_stderr(cli: Cli) -> None:
    path, ran = begun(cli)
    assert ran.out == f"{path}\n"
    for told in ("Fill every empty bullet", "callflow sop check", "callflow sop test", "Callers"):
        assert told in ran.err


def test_a_template_is_refused_until_it_is_filled(cli: Cli) -> None:
    path, _ = begun(cli)
    ran = cli.run("sop", "check", str(path.parent))
    assert ran.code == 1
    empty = path.read_text(encoding="utf-8").splitlines().index("-") + 1
    assert ran.out.startswith(f"{path}:{empty}: an empty bullet")
    fill(path)
    assert cli.run("sop", "check", str(path.parent)).code == 0


def test_a_filled_template_is_a_whole_procedure_in_three_languages(cli: Cli) -> None:
    path, _ = begun(cli, "--title", 'Smell of gas: "eggs"')
    fill(path)
    document = SopLibrary.load(path.parent).document("gas_leak")
    assert document.front.title == 'Smell of gas: "eggs"'
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", document.front.version)
    assert document.languages == ("en", "zh", "es")
    for language, (heard, asked, said) in WORDS.items():
        assert document.examples[language] == (heard,)
        assert document.sections[(language, "ask")][-1].text == asked
        assert document.sections[(language, "say")][0].text == said
        for section in ("ask", "say", "never", "escalate"):
            assert f"### {section.title()}" in path.read_text(encoding="utf-8")


def test_a_title_follows_from_the_id(cli: Cli) -> None:
    path, _ = begun(cli)
    assert '\ntitle: "Gas leak"\n' in path.read_text(encoding="utf-8")


def test_a_file_that_is_there_is_left_as_it_is(cli: Cli) -> None:
    path, _ = begun(cli)
    path.write_text("mine")
    cli.run("sop", "new", "gas_leak", "--dir", str(path.parent)).failed_with(
        f"callflow: {path}: is there already and was left as it is"
    )
    assert path.read_text() == "mine"


def test_a_shipped_procedure_is_begun_as_a_copy_that_is_right_already(cli: Cli) -> None:
    ran = cli.run("sop", "new", "fire_smoke", "--dir", str(cli.home), "--title", "Fire, here")
    assert ran.code == 0
    assert "takes its place" in ran.err
    assert cli.run("sop", "check", str(cli.home)).code == 0
    own, shipped = SopLibrary.load(cli.home), SopLibrary.load()
    assert own.document("fire_smoke").front.title == "Fire, here"
    assert own.document("fire_smoke").sections == shipped.document("fire_smoke").sections


@pytest.mark.parametrize("scenario", ["Gas", "gas-leak", "../gas", "", "_common", "readme", "4x"])
def test_what_is_no_id_is_a_misuse(cli: Cli, scenario: str) -> None:
    ran = cli.run("sop", "new", scenario, "--dir", str(cli.home))
    assert ran.code == 2
    assert "no id of a scenario" in re.sub(r"\W+", " ", ran.err)
    assert not list(cli.home.glob("**/*.md"))


@pytest.mark.parametrize("title", ["", "  ", "two\nlines", "x" * 201, "a \x1b[2J"])
def test_what_is_no_title_is_a_misuse(cli: Cli, title: str) -> None:
    ran = cli.run("sop", "new", "gas_leak", "--dir", str(cli.home), "--title", title)
    assert ran.code == 2
    assert not list(cli.home.glob("**/*.md"))


def test_a_folder_that_cannot_be_is_named(cli: Cli) -> None:
    (cli.home / "file").write_text("")
    cli.run("sop", "new", "gas_leak", "--dir", str(cli.home / "file")).failed_with("is no folder")
    cli.run("sop", "new", "gas_leak", "--dir", "/proc/none").failed_with("cannot be written")
