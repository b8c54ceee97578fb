"""What an operator may write: one Markdown file becomes one scenario."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callflow.call.record import Sentence, SopChunk
from callflow.errors import SopError
from callflow.procedures.document import Part, Shared, SopDocument
from callflow.procedures.parser import parse_document

SPOKEN: tuple[Part, ...] = ("ask", "say")
HEAD = "---\nid: stairlift\ntitle: A stairlift\nversion: 7\ngroup: entrapment\nurgency: P2\n---\n"
SHARED = Shared(
    phrases={
        ("en", "stay_inside"): Sentence(id="stay_inside", text="Stay inside."),
        ("en", "fire_called"): Sentence(
            id="fire_called", text="Called.", only_after="emergency.fire.requested"
        ),
    },
    never={("en", "never_force"): Sentence(id="never_force", text="Force the doors.")},
)


def parse(body: str, head: str = HEAD) -> SopDocument:
    return parse_document(Path("stairlift.md"), (head + body).encode(), SHARED)


def document_or_error(data: bytes) -> SopDocument | SopError:
    try:
        return parse_document(Path("any.md"), data, SHARED)
    except SopError as error:
        return error


def chunk_of(document: SopDocument, section: Part, language: str = "en") -> SopChunk:
    chunk = document.chunk(section, language)
    assert chunk is not None
    return chunk


def test_a_bullet_is_a_sentence_with_an_id_and_a_condition() -> None:
    document = parse("## en\n### Say\n- [coming] Help is coming. {after: dispatch.requested}\n")
    assert chunk_of(document, "say").sentences == (
        Sentence(id="coming", text="Help is coming.", only_after="dispatch.requested"),
    )
    assert chunk_of(document, "say").version == "7"


def test_a_bullet_without_an_id_is_named_after_its_place() -> None:
    document = parse("## en\n### Ask\n1. Safe?\n2. Well?\n")
    assert [line.id for line in chunk_of(document, "ask").sentences] == ["en_ask_1", "en_ask_2"]


def test_a_bullet_that_is_an_id_alone_takes_the_shared_phrase_and_its_condition() -> None:
    document = parse("## en\n### Say\n- [stay_inside]\n- [fire_called] They were called.\n")
    assert chunk_of(document, "say").sentences == (
        Sentence(id="stay_inside", text="Stay inside."),
        Sentence(id="fire_called", text="They were called.", only_after="emergency.fire.requested"),
    )


def test_a_translation_keeps_the_condition_of_the_english_sentence() -> None:
    document = parse("## en\n### Say\n- [a] Sent. {after: x.y}\n## es\n### Say\n- [a] Enviado.\n")
    assert chunk_of(document, "say", "es").sentences[0].only_after == "x.y"


def test_notes_comments_and_emphasis_are_not_spoken() -> None:
    document = parse(
        "A note.\n\n- a list in a note\n\n## en\nFor the author.\n### Ask\n"
        "- Are you **really**\n  safe? <!-- ask slowly -->\n\n<!--\n- Hidden?\n-->\n"
    )
    assert [line.text for line in chunk_of(document, "ask").sentences] == ["Are you really safe?"]


def test_a_gap_to_fill_is_part_of_the_sentence() -> None:
    document = parse("## en\n### Say\n- In {eta_minutes} minutes. {after: eta.known}\n")
    sentence = chunk_of(document, "say").sentences[0]
    assert (sentence.text, sentence.only_after) == ("In {eta_minutes} minutes.", "eta.known")


def test_a_missing_section_comes_in_english() -> None:
    document = parse("## es\n### Say\n- Tranquilo.\n## en\n### Say\n- Well.\n### Ask\n- Safe?\n")
    assert chunk_of(document, "say", "es").language == "es"
    assert chunk_of(document, "ask", "es").language == "en"
    assert chunk_of(document, "ask", "de").language == "en"
    assert document.chunk("escalate", "es") is None


def test_a_rule_holds_in_every_language_and_the_shared_ones_hold_always() -> None:
    document = parse(
        "## en\n### Say\n- [wait] Wait.\n### Never\n- [x] Wait on. {forbids: wait}\n"
        "## zh\n### Say\n- [wait] 等。\n### Never\n- 开玩笑。\n"
    )
    rules = chunk_of(document, "never", "zh").sentences
    assert {rule.id for rule in rules} == {"zh_never_1", "x", "never_force"}
    assert [name for rule in rules for name in rule.forbids] == ["wait"]


@pytest.mark.parametrize(
    ("urgency", "reason"),
    [
        ("P1", "stairlift is P1"),
        ("P2", "stairlift is P2"),
        ("P3", None),
        ("P4\nneeds_human: true", "stairlift needs a person"),
    ],
)
def test_the_urgent_ones_always_fetch_a_person(urgency: str, reason: str | None) -> None:
    head = HEAD.replace("P2", urgency)
    document = parse("## en\n### Ask\n- Safe?\n### Escalate\n- A person.\n", head)
    assert document.needs_human == reason
    assert chunk_of(document, "escalate").needs_human == reason


def test_byte_order_mark_and_windows_line_ends_are_no_fault() -> None:
    data = (HEAD + "## en\n### Ask\n- Safe?\n").replace("\n", "\r\n").encode("utf-8-sig")
    document = parse_document(Path("stairlift.md"), data, SHARED)
    assert chunk_of(document, "ask").sentences[0].text == "Safe?"


PARTS = st.sampled_from(
    [
        *("---\n", "id: a\n", "title: t\n", "version: 1\n", "group: g\n", "urgency: P1\n"),
        *("## en\n", "### Ask\n", "### Never\n", "- [x] Hi? {after: a.b}\n", "- {forbids: x}\n"),
        *("<!--", "-->", "{", "}", "[", "]", "cues: {en: [a]}\n", "*a", "&a ", "\t- b\n"),
        *("\n", "\r", "\x00", "\u2028", "é"),
    ]
)
FILES = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(PARTS, max_size=30).map(lambda parts: "".join(parts).encode()),
    st.lists(PARTS, max_size=12).map(lambda parts: (HEAD + "".join(parts)).encode()),
    st.text(max_size=100).map(lambda text: f"---\n{text}\n---\n".encode("utf-8", "surrogatepass")),
)


@given(FILES)
@example(b"---\n" + b"[" * 5000 + b"\n---\n")
@example(b"---\na: &x [*x]\n---\n")
@example(b"---\n? [a]\n: b\n---\n")
@example(b"---\n!!python/object:os.system x\n---\n")
@example((HEAD + "## en\n### Ask\n- \u2028 x\n").encode())
def test_any_file_is_either_a_document_or_refused_at_a_line_that_it_has(data: bytes) -> None:
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
    outcome = document_or_error(data)
    if isinstance(outcome, SopError):
        assert 1 <= outcome.line <= lines
        assert outcome.reason
    else:
        spoken = [outcome.chunk(section, "en") for section in SPOKEN]
        assert outcome.front.silent or any(spoken)
