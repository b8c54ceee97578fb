"""Every kind of bad SOP file is refused with its path, the right line and a way out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callflow.errors import SopError
from callflow.procedures.library import SopLibrary, check

FRONT = "---\nid: stairlift\ntitle: A stairlift\nversion: 1\ngroup: entrapment\nurgency: P3\n---\n"
ASK = "## en\n### Ask\n- Are you safe?\n"

BAD_FILES = {
    "no front matter": (ASK, 1, "the first line must be ---"),
    "front matter that is never closed": ("---\nid: stairlift\n", 1, "end it with a line ---"),
    "an empty file": ("", 1, "the file is empty"),
    "a file of blanks": (" \n\n\t\n", 1, "the file is empty"),
    "an unknown key": (
        FRONT.replace("urgency: P3", "urgency: P3\nurgancy: P2") + ASK,
        7,
        "unknown key 'urgancy', did you mean urgency?",
    ),
    "a missing key": (FRONT.replace("title: A stairlift\n", "") + ASK, 1, "title is missing"),
    "a key given twice": (
        FRONT.replace("version: 1", "version: 1\nversion: 2") + ASK,
        5,
        "version twice",
    ),
    "a bad urgency": (FRONT.replace("P3", "P6") + ASK, 6, "urgency must be P1, P2, P3, P4 or P5"),
    "a bad id": (FRONT.replace("stairlift", "Stair Lift", 1) + ASK, 2, "id must be lower-case"),
    "P1 without a person": (
        FRONT.replace("P3", "P1\nneeds_human: false") + ASK,
        7,
        "P1 always fetches a person; remove needs_human: false",
    ),
    "a word for true or false": (
        FRONT.replace("P3", "P3\nneeds_human: maybe") + ASK,
        7,
        "needs_human must be true or false",
    ),
    "a timer without a unit": (
        FRONT.replace("P3", "P3\ntimers:\n  welfare_check: 300") + ASK,
        8,
        "end the name in _ms, _s, _min or _h",
    ),
    "a timer that is no number": (
        FRONT.replace("P3", "P3\ntimers:\n  welfare_check_s: soon") + ASK,
        8,
        "timers must be numbers",
    ),
    "cues without a language": (
        FRONT.replace("P3", "P3\ncues: [stuck]") + ASK,
        7,
        "cues must list phrases per language",
    ),
    "cues of no language": (
        FRONT.replace("P3", "P3\ncues:\n  English: [stuck]") + ASK,
        8,
        "use a code such as en, zh or es",
    ),
    "broken YAML": (FRONT.replace("A stairlift", "A: b: c") + ASK, 3, "is no YAML"),
    "a YAML anchor": (
        FRONT.replace("P3", "P3\ncues: &a {en: [stuck], es: *b}").replace("*b", "*a") + ASK,
        7,
        "has an alias; write the value out",
    ),
    "front matter that is a list": ("---\n- a\n---\n" + ASK, 2, "must be `key: value` lines"),
    "an unknown section": (
        FRONT + "## en\n### Asks\n- Are you safe?\n",
        9,
        "unknown section 'Asks', did you mean Ask?",
    ),
    "a language written out": (FRONT + "## English\n", 8, "did you mean ## en?"),
    "a language given twice": (FRONT + ASK + ASK, 11, "## en is given twice (first on line 8)"),
    "a section without a language": (FRONT + "### Ask\n- Hello?\n", 8, "write ## en first"),
    "a bullet without a section": (FRONT + "## en\n- Hello?\n", 9, "a bullet outside of a section"),
    "a language that is mute": (
        FRONT + ASK + "\n## es\n### Never\n- Culpar.\n",
        12,
        "## es has nothing to ask or say; fill ### Ask or ### Say",
    ),
    "no language at all": (FRONT + "Just a note.\n", 9, "no language; write ## en"),
    "a doubled id": (
        FRONT + "## en\n### Ask\n- [a] One?\n- [b] Two?\n- [a] Three?\n",
        12,
        "[a] is given twice in ## en (first on line 10)",
    ),
    "an id with capitals": (FRONT + "## en\n### Ask\n- [Ask It] One?\n", 10, "[Ask It] is no id"),
    "an unknown shared phrase": (
        FRONT + "## en\n### Say\n- [stay_insde]\n",
        10,
        "no shared phrase in en, did you mean stay_inside?",
    ),
    "an unknown condition": (
        FRONT + "## en\n### Say\n- Help comes. {afer: dispatch.requested}\n",
        10,
        "unknown condition 'afer', did you mean after?",
    ),
    "a condition without a value": (
        FRONT + "## en\n### Say\n- Help comes. {only if sent}\n",
        10,
        "unknown condition {only if sent}; write {after: fact}",
    ),
    "a condition in mid-sentence": (
        FRONT + "## en\n### Say\n- Help {after: dispatch.requested} comes.\n",
        10,
        "stands in mid-sentence; put it at the end",
    ),
    "a misspelt fact": (
        FRONT + "## en\n### Say\n- Help comes. {after: dispatch.requsted}\n",
        10,
        "unknown fact 'dispatch.requsted', did you mean dispatch.requested?",
    ),
    "a brace without its partner": (
        FRONT + "## en\n### Say\n- Help comes. {after: dispatch.requested\n",
        10,
        "a brace without its partner",
    ),
    "a rule that forbids what nobody says": (
        FRONT + ASK + "### Never\n- Have them test it. {forbids: door_open_onec}\n",
        12,
        "no sentence has the id 'door_open_onec', did you mean door_open_once?",
    ),
    "a question that forbids": (
        FRONT + "## en\n### Ask\n- Safe? {forbids: stay_inside}\n",
        10,
        "belongs to a bullet under ### Never",
    ),
    "a rule that waits for a fact": (
        FRONT + ASK + "### Never\n- Joke. {after: dispatch.requested}\n",
        12,
        "for a sentence that is spoken",
    ),
    "two languages with different conditions": (
        FRONT
        + "## en\n### Say\n- [a] One. {after: x.y}\n## es\n### Say\n- [a] Uno. {after: x.z}\n",
        13,
        "[a] waits for x.y in another language; use one fact",
    ),
    "an empty bullet": (FRONT + "## en\n### Ask\n-\n", 10, "an empty bullet"),
    "a bullet of dashes": (FRONT + "## en\n### Ask\n- ...\n", 10, "a sentence without a word"),
    "a nested list": (FRONT + ASK + "    - And you?\n", 11, "a list inside a list"),
    "text that is no bullet": (
        FRONT + ASK + "\nDo not use the stairs.\n",
        12,
        "text that is no bullet would never be said; begin it with '- '",
    ),
    "text right below a section": (FRONT + "## en\n### Ask\nAre you safe?\n", 10, "never be said"),
    "a bullet without its blank": (FRONT + ASK + "\n-And you?\n", 12, "begin it with '- '"),
    "a second paragraph of a bullet": (FRONT + ASK + "\n  And you?\n", 12, "never be said"),
    "a bullet that a comment cuts in two": (
        FRONT + ASK + "<!-- a\nb -->\n  And you?\n",
        13,
        "put notes above the first ## heading or in <!-- … -->",
    ),
    "text in a second language": (
        FRONT + ASK + "## es\n### Never\n- Culpar.\n\n> Nota\n",
        15,
        "never be said",
    ),
    "a heading that opens nothing": (FRONT + ASK + "#### Say\n- Hi.\n", 11, "opens nothing"),
    "a sentence that is too long": (
        FRONT + "## en\n### Say\n- " + "word " * 81 + "\n",
        10,
        "a sentence of 404 characters; split it, at most 400",
    ),
    "a comment that is never closed": (FRONT + ASK + "<!-- note\n", 11, "end it with -->"),
    "a silent document that speaks": (
        FRONT.replace("P3", "P3\nsilent: true") + ASK,
        11,
        "silent: true speaks nothing",
    ),
    "a silent document that needs a person": (
        FRONT.replace("P3", "P3\nsilent: true\nneeds_human: true") + "## en\n",
        8,
        "a silent call has nobody to connect",
    ),
    "a control character": (FRONT + ASK + "a\x07b\n", 11, "control character U+0007"),
}


def test_each_bad_file_is_refused_with_path_line_and_reason(tmp_path: Path) -> None:
    paths = {kind: tmp_path / f"{number:02}.md" for number, kind in enumerate(BAD_FILES)}
    for kind, (text, _, _) in BAD_FILES.items():
        paths[kind].write_text(text, encoding="utf-8")
    found = {problem.path: problem for problem in check(tmp_path)}
    missed = {
        kind: (line, reason, str(found.get(paths[kind])))
        for kind, (_, line, reason) in BAD_FILES.items()
        if (problem := found.get(paths[kind])) is None
        or problem.line != line
        or reason not in problem.reason
        or str(problem) != f"{paths[kind]}:{line}: {problem.reason}"
    }
    assert missed == {}
    with pytest.raises(SopError) as refused:
        SopLibrary.load(tmp_path)
    assert str(refused.value) == str(found[min(found)])


def test_notes_above_the_first_language_and_comments_are_no_sentences(tmp_path: Path) -> None:
    body = "# Notes\n\nFor us.\n\n## en\n<!-- a -->\n### Ask\n<!-- b\n\nc -->\n- Are\n  you\nok?\n"
    (tmp_path / "stairlift.md").write_text(FRONT + body, encoding="utf-8")
    assert check(tmp_path) == []
    asked = SopLibrary.load(tmp_path).document("stairlift").sections[("en", "ask")]
    assert [sentence.text for sentence in asked] == ["Are you ok?"]


def test_text_in_the_shared_file_that_is_no_bullet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "_common.md"
    path.write_text("Ours.\n## en\n### Phrases\n- [a] Stay.\n\nWait.\n", encoding="utf-8")
    assert [(bad.path, bad.line) for bad in check(tmp_path)] == [(path, 6)]


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.with_name("gone.md"))


def _circle(path: Path) -> None:
    path.symlink_to(path)


def _link_to_a_pipe(path: Path) -> None:
    pipe = path.with_name("pipe")
    os.mkfifo(pipe)
    path.symlink_to(pipe)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("name", ["stairlift.md", "_common.md", "README.MD"])
def test_an_entry_that_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    for make in (_folder, _pipe, _dangling, _circle, _link_to_a_pipe):
        folder = tmp_path / make.__name__
        folder.mkdir()
        make(folder / name)
        with pytest.raises(SopError, match=r"not a regular file|cannot be read") as refused:
            SopLibrary.load(folder)
        assert (refused.value.path, refused.value.line) == (folder / name, 1)
        assert "take it out of the folder" in refused.value.reason
        assert [str(bad) for bad in check(folder)] == [str(refused.value)]


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "..data").write_text(FRONT + ASK, encoding="utf-8")
    (tmp_path / "stairlift.md").symlink_to(tmp_path / "..data")
    assert "stairlift" in SopLibrary.load(tmp_path).documents


def test_a_file_that_is_not_utf_8_is_refused_where_it_stops_being_so(tmp_path: Path) -> None:
    path = tmp_path / "stairlift.md"
    path.write_bytes(FRONT.encode() + "## es\n### Ask\n- ¿Está bien?\n".encode("latin-1"))
    with pytest.raises(SopError, match="save the file as UTF-8") as refused:
        SopLibrary.load(tmp_path)
    assert (refused.value.path, refused.value.line) == (path, 10)


def test_two_files_about_one_scenario_are_refused_in_the_second(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(FRONT + ASK, encoding="utf-8")
    (tmp_path / "b.md").write_text(FRONT + ASK, encoding="utf-8")
    with pytest.raises(SopError, match=r"scenario stairlift is also in a\.md") as refused:
        SopLibrary.load(tmp_path)
    assert (refused.value.path, refused.value.line) == (tmp_path / "b.md", 2)


def test_check_collects_the_problems_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(FRONT + ASK, encoding="utf-8")
    (tmp_path / "b.md").write_text(FRONT + ASK, encoding="utf-8")
    (tmp_path / "c.md").write_text("hello\n", encoding="utf-8")
    (tmp_path / "d.md").write_text("", encoding="utf-8")
    assert [(problem.path.name, problem.line) for problem in check(tmp_path)] == [
        ("b.md", 2),
        ("c.md", 1),
        ("d.md", 1),
    ]


def test_a_folder_that_does_not_exist_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(SopError, match="no folder of procedures") as refused:
        SopLibrary.load(tmp_path / "missing")
    assert refused.value.path == tmp_path / "missing"
    assert len(check(tmp_path / "missing")) == 1


def test_a_shared_file_needs_ids_and_texts(tmp_path: Path) -> None:
    (tmp_path / "_common.md").write_text("## en\n### Phrases\n- Stay.\n", encoding="utf-8")
    with pytest.raises(SopError, match=r"needs both: \[id\] and its text") as refused:
        SopLibrary.load(tmp_path)
    assert (refused.value.path.name, refused.value.line) == ("_common.md", 3)
    assert len(check(tmp_path)) == 1
