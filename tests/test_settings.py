"""Settings: what is misspelt or impossible is refused by name, with the way out."""

from __future__ import annotations

import pytest

from callflow.errors import SettingsError
from callflow.settings import load


def test_without_any_setting_the_numbers_are_the_designs() -> None:
    settings = load({})
    assert settings.stale_after_s == 10
    assert settings.timing.completed_ttl_ms == 30 * 60 * 1000
    assert settings.redis_url is None


def test_the_queue_is_where_the_calls_are_unless_it_is_named() -> None:
    assert load({"CALLFLOW_REDIS_URL": "redis://a"}).queue_url == "redis://a"
    both = {"CALLFLOW_REDIS_URL": "redis://a", "CALLFLOW_BROKER_URL": "redis://b"}
    assert load(both).queue_url == "redis://b"


def test_a_socket_is_written_as_kombu_writes_it() -> None:
    assert load({"CALLFLOW_REDIS_URL": "unix:///run/r.sock"}).queue_url == (
        "redis+socket:///run/r.sock"
    )


def test_a_misspelt_setting_is_refused_with_the_name_it_may_have_meant() -> None:
    with pytest.raises(SettingsError) as refused:
        load({"CALLFLOW_STALE_AFTER": "5"})
    assert str(refused.value) == (
        "CALLFLOW_STALE_AFTER: unknown setting, did you mean CALLFLOW_STALE_AFTER_S?"
    )


def test_a_setting_like_no_other_is_answered_with_all_there_are() -> None:
    with pytest.raises(SettingsError, match=r"known are .*CALLFLOW_SOP_DIR"):
        load({"CALLFLOW_XYZZY": "5"})


def test_an_impossible_value_is_refused_by_name() -> None:
    for name, value, reason in [
        ("CALLFLOW_STALE_AFTER_S", "1", "greater than or equal to 2"),
        ("CALLFLOW_STALE_AFTER_S", "soon", "valid number"),
        ("CALLFLOW_COMPLETED_TTL_S", "0", "greater than or equal to 1"),
        ("CALLFLOW_COMPLETED_TTL_S", "inf", "less than or equal to"),
        ("CALLFLOW_ABANDONED_AFTER_S", "1e17", "less than or equal to"),
        ("CALLFLOW_RESPONDER", "oracle", "'scripted', 'echo' or 'counted'"),
        ("CALLFLOW_REDIS_URL", "http://a", "begins with redis://"),
        ("CALLFLOW_BROKER_URL", "amqp://a", "begins with redis://"),
    ]:
        with pytest.raises(SettingsError, match=f"{name}: .*{reason}"):
            load({name: value})


def test_beats_must_fit_into_staleness() -> None:
    slow = {"CALLFLOW_BEAT_INTERVAL_S": "1", "CALLFLOW_STALE_AFTER_S": "2"}
    with pytest.raises(SettingsError, match="CALLFLOW_BEAT_INTERVAL_S"):
        load(slow)


def test_an_empty_variable_is_no_setting_and_other_programs_are_none_of_ours() -> None:
    assert load({"CALLFLOW_BROKER_URL": "", "PATH": "/bin", "CALL": "x"}) == load({})


def test_a_refusal_never_shows_the_value() -> None:
    with pytest.raises(SettingsError) as refused:
        load({"CALLFLOW_REDIS_ULR": "redis://:secret@host"})
    assert "secret" not in str(refused.value)


def test_a_broker_that_could_never_be_reached_is_refused_without_its_password() -> None:
    for url in [
        "sentinel://:secret@host:port",
        "sentinel://:secret@host:99999",
        "sentinel://:secret@host:0",
        "sentinel://:secret@",
        "sentinel://:secret@a:1,b:2",
        "sentinel://:secret@a:1;b:2",
        "sentinel://:secret@a:1;sentinel://b:port",
        "redis://:sec/secret@host:6379/0",
        "redis://:secret@host:port/0",
        "redis://:secret@[host:6379/0",
    ]:
        with pytest.raises(
            SettingsError, match=r"^CALLFLOW_BROKER_URL: has a host or a port"
        ) as refused:
            load({"CALLFLOW_BROKER_URL": url})
        assert "secret" not in str(refused.value)


def test_a_broker_is_named_as_kombu_names_it() -> None:
    for url in [
        "sentinel://a",
        "sentinel://:p@a:1/2;sentinel://b",
        "redis://",
        "redis+socket:///r.s",
    ]:
        assert load({"CALLFLOW_BROKER_URL": url}).queue_url == url


def test_what_is_wrong_with_several_settings_names_the_first_once() -> None:
    for given, name in [
        ({"CALLFLOW_REDIS_URL": "redis+sentinel://a/s"}, "CALLFLOW_BROKER_URL"),
        ({"CALLFLOW_REDIS_URL": "redis+cluster://a"}, "CALLFLOW_BROKER_URL"),
        ({"CALLFLOW_MODEL_2": "openai:x"}, "CALLFLOW_MODEL_2"),
        ({"CALLFLOW_STALE_AFTER_S": "2", "CALLFLOW_BEAT_INTERVAL_S": "1"}, "CALLFLOW_BEAT"),
    ]:
        with pytest.raises(SettingsError) as refused:
            load(given)
        assert refused.value.name.startswith(name)
        assert not refused.value.reason.startswith(name)


def test_a_malformed_address_is_told_of_before_the_broker_that_is_missing() -> None:
    for url in [
        "redis+sentinel://:secret@host:26379",
        "redis+sentinel://:secret@host:port/service",
        "redis+sentinel://:secret@host/service?foo=secret",
        "redis+cluster://:secret@host:port",
    ]:
        with pytest.raises(SettingsError, match=r"^CALLFLOW_REDIS_URL: ") as refused:
            load({"CALLFLOW_REDIS_URL": url})
        assert "secret" not in str(refused.value)


def test_what_is_for_the_tests_alone_is_no_setting_and_what_tells_of_test_calls_is() -> None:
    assert load({"CALLFLOW_TEST_SERVER": "redis7"}) == load({})
    assert load({"CALLFLOW_TEST_CALL_HOURS": "24"}).test_call_hours == 24
    with pytest.raises(SettingsError, match="CALLFLOW_TEST_CALL_HOURS"):
        load({"CALLFLOW_TEST_CALL_HOURS": "0"})
