"""How fast procedures are found, in few and in very many of them: `python -m benchmarks.retrieval`.

Measures, in processes of their own: what the lexical and the semantic search cost to start (time,
memory), what a query costs (classify and retrieve, CPU of one core), and how both grow with the
number of passages. Vectors of the large sets are drawn by chance around real ones, for to encode
100,000 texts would take a minute and measure the encoder alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

from callflow.lab.percentiles import nearest_rank
from callflow.retrieval.corpus import Corpus, Example, Passage

SIZES = (50, 5_000, 100_000)
QUERIES = 200
PASSAGES_OF_A_TOPIC = 50


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table, or with `--json` one object on the last line of stdout."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks retrieval", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument(
        "--passages",
        type=lambda text: tuple(sorted(int(number) for number in text.split(","))),
        default=SIZES,
        help="sizes of the sets (default: 50,5000,100000)",
    )
    asked = parser.parse_args(arguments)
    result = measure(asked.passages)
    if asked.json:
        print(json.dumps(result))
    else:
        for line in table(result):
            print(line)
    return 0


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """Return what was measured; each number comes from a process of its own."""
    with tempfile.TemporaryDirectory(prefix="callflow-retrieval-") as scratch:
        folder = Path(scratch)
        own = {kind: _alone(_own, kind, folder) for kind in ("lexical", "semantic")}
        # The second start finds the index that the first one built.
        own["semantic"]["build_s"] = own["semantic"]["start_s"]
        own["semantic"] |= {
            name: value
            for name, value in _alone(_own, "semantic", folder).items()
            if name != "build_s"
        }
        large: dict[str, Any] = {}
        for size in sizes:
            _alone(_large, size, folder)  # builds
            large[str(size)] = _alone(_large, size, folder)
    first, last = large[str(sizes[0])], large[str(sizes[-1])]
    ratios = {
        "semantic_over_lexical_ms": own["semantic"]["p50_ms"] / own["lexical"]["p50_ms"],
        "largest_over_smallest_ms": last["p50_ms"] / first["p50_ms"],
        "largest_over_smallest_passages": sizes[-1] / sizes[0],
    }
    return {"own": own, "passages": large, "ratios": ratios}


def table(result: dict[str, Any]) -> list[str]:
    """The result as lines for people."""
    lines = ["our own procedures      start s   memory MB   p50 ms   p99 ms (CPU)"]
    for kind, found in result["own"].items():
        lines.append(
            f"  {kind:<20}{found['start_s']:>10.2f}{found['memory_mb']:>12.0f}"
            f"{found['p50_ms']:>9.2f}{found['p99_ms']:>9.2f}"
        )
    lines.append("passages                 open s   memory MB   p50 ms   p99 ms   found")
    for size, found in result["passages"].items():
        lines.append(
            f"  {int(size):<20,}{found['start_s']:>10.2f}{found['memory_mb']:>12.0f}"
            f"{found['p50_ms']:>9.2f}{found['p99_ms']:>9.2f}{found['found']:>8.2f}"
        )
    lines += [f"{name}: {value:.2f}" for name, value in result["ratios"].items()]
    return lines


def _alone(work: Callable[..., dict[str, float]], *arguments: Any) -> dict[str, float]:
    """Run it in a fresh process, so that memory is its own. Raises RuntimeError when it fails."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    child = context.Process(target=_answer, args=(answers, work, arguments))
    child.start()
    child.join()
    if child.exitcode != 0:
        raise RuntimeError(f"{work.__name__}{arguments} ended with {child.exitcode}")
    found: dict[str, float] = answers.get()
    return found


def _answer(answers: Any, work: Callable[..., dict[str, float]], arguments: Sequence[Any]) -> None:
    answers.put(work(*arguments))


def _own(kind: str, folder: Path) -> dict[str, float]:
    from callflow.procedures.library import SopLibrary
    from callflow.retrieval.engine import build_engine

    library = SopLibrary.load()
    before, began = _memory_mb(), time.perf_counter()
    found = build_engine(library, "lexical" if kind == "lexical" else "semantic", folder)
    started = time.perf_counter() - began
    said = [
        (phrase, language)
        for document in library.documents.values()
        for language, phrases in document.examples.items()
        for phrase in phrases[:4]
    ]

    def query(number: int) -> None:
        phrase, language = said[number * 7 % len(said)]
        # A word more than the example has, so that nothing was seen before.
        utterance = f"{phrase} {number}"
        scored = found.score(utterance)
        found.search(utterance, language, 3, dict(scored.likely))

    return {"start_s": started, **_timed(query), "memory_mb": _memory_mb() - before}


def _large(size: int, folder: Path) -> dict[str, float]:
    """Open (and first build) an index of `size` passages, and search it for each of some."""
    # As workers have it: on several threads products as small as these are slower.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    import numpy as np

    from callflow.retrieval.engine import TopicSearch

    corpus = _drawn(size)
    encoder = _Drawn()
    if not any(folder.glob(f"{size}/meaning-*")):
        TopicSearch(corpus, folder / str(size), encoder)
        return {}
    before, began = _memory_mb(), time.perf_counter()
    search = TopicSearch(corpus, folder / str(size), encoder)
    started = time.perf_counter() - began
    wanted = [int(at) for at in np.linspace(0, size - 1, QUERIES)]
    right = 0

    def query(number: int) -> None:
        nonlocal right
        passage = corpus.passages[wanted[number]]
        hits = search.search(f"{passage.text} please", "en", 3, {})
        right += passage.topic in {hit.scenario for hit in hits}

    timed = _timed(query)
    return {
        "start_s": started,
        **timed,
        "memory_mb": _memory_mb() - before,
        "found": right / QUERIES,
    }


def _drawn(size: int) -> Corpus:
    """Passages of some words each, fifty to a topic."""
    words = [f"word{number}" for number in range(20_000)]
    passages = tuple(
        Passage(
            f"p{number}",
            f"t{number // PASSAGES_OF_A_TOPIC}",
            "group",
            "en",
            "say",
            " ".join(words[crc32(b"%d %d" % (number, place)) % len(words)] for place in range(12)),
        )
        for number in range(size)
    )
    return Corpus(passages, (Example("t0", "en", "only one"),))


class _Drawn:
    """Vectors of 512, drawn by chance from the words of a text: texts that share words are near."""

    name = "drawn by chance"

    def __init__(self) -> None:
        import numpy as np

        self._table = np.random.default_rng(1).normal(size=(4_096, 512)).astype(np.float32)

    def encode(self, text: str) -> Any:
        """One vector."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> Any:
        """One vector for each text, of length 1."""
        import numpy as np

        from callflow.retrieval.lexical import words_of

        found = np.zeros((len(texts), 512), np.float32)
        for row, text in enumerate(texts):
            places = [crc32(word.encode()) % len(self._table) for word in words_of(text)]
            found[row] = self._table[places].sum(axis=0)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def _timed(query: Callable[[int], None]) -> dict[str, float]:
    """CPU of each query in ms: what others do on the machine does not count."""
    taken = []
    for number in range(QUERIES):
        began = time.process_time()
        query(number)
        taken.append(1000 * (time.process_time() - began))
    return {"p50_ms": statistics.median(taken), "p99_ms": nearest_rank(sorted(taken), 99)}


def _memory_mb() -> float:
    """Memory of this process that is mapped and resident, in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
