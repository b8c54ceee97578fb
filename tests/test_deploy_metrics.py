"""The alerts and the dashboard, checked by Prometheus' own linter and against what there is."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from callflow.metrics.catalogue import METRICS, Kind, Metric
from tests.metrics.promtool import promtool

DEPLOY = Path(__file__).parents[1] / "deploy"
PROMETHEUS = DEPLOY / "prometheus"
DASHBOARD = DEPLOY / "grafana" / "callflow.json"

EXPORTED: dict[str, Metric] = {
    f"{one.exported}{suffix}": one
    for one in METRICS
    for suffix in (("_bucket", "_sum", "_count") if one.kind is Kind.TIMES else ("",))
}

OF_THE_SCRAPE = {"instance", "le"}
"""Labels that no metric of ours has by itself."""


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    assert isinstance(found, list)
    return found


def asked() -> Iterator[tuple[str, str]]:
    """Every PromQL expression, with where it stands."""
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def labels_of(expression: str) -> Iterator[tuple[Metric, str, str]]:
    """Every matcher on a metric of ours: the metric, the label, the value."""
    for name, matchers in re.findall(r"(callflow_\w+)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
            for one in value.split("|"):
                yield EXPORTED[name], label, one


def test_the_alerts_are_valid() -> None:
    promtool("check", "rules", str(PROMETHEUS / "alerts.yaml"))


@pytest.mark.slow
def test_each_alert_fires_when_it_should_and_alone() -> None:
    promtool("test", "rules", str(PROMETHEUS / "alerts_test.yaml"))


def test_every_alert_is_made_to_fire_by_a_test() -> None:
    cases = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text(encoding="utf-8"))["tests"]
    fired = {
        re.findall(r'alertname="(\w+)"', sample["labels"])[0]
        for case in cases
        for expected in case["promql_expr_test"]
        for sample in expected["exp_samples"]
    }
    assert fired == {rule["alert"] for rule in alerts()}


def test_the_scrape_is_valid_with_the_alerts_and_a_token(tmp_path: Path) -> None:
    for name in ("scrape.yaml", "alerts.yaml"):
        shutil.copy(PROMETHEUS / name, tmp_path)
    (tmp_path / "callflow.token").write_text("secret", encoding="utf-8")
    told = promtool("check", "config", str(tmp_path / "scrape.yaml"))
    assert "1 rule files found" in told
    assert f"{len(alerts())} rules found" in told


def test_an_alert_says_whom_it_wakes_and_what_to_do() -> None:
    for rule in alerts():
        assert rule["alert"].startswith("Callflow")
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        for text in (rule["annotations"]["summary"], rule["annotations"]["runbook"]):
            assert text.endswith((".", "(p99).", "}}).")), text
        assert len(rule["annotations"]["runbook"]) > 60, rule["alert"]


def test_settings_and_commands_that_runbooks_name_exist() -> None:
    from callflow.cli import app
    from callflow.settings import Settings

    text = (PROMETHEUS / "alerts.yaml").read_text(encoding="utf-8")
    for name in re.findall(r"CALLFLOW_(\w+)", text):
        assert name.lower() in Settings.model_fields, name
    known = {one.name for one in app.registered_commands}
    known |= {one.name for one in app.registered_groups}
    for name in re.findall(r"`callflow (\w+)", text):
        assert name in known, name


def test_every_expression_is_valid_promql(tmp_path: Path) -> None:
    rules = [
        {"record": f"check:{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, (_, expression) in enumerate(asked())
    ]
    assert len(rules) > 50
    path = tmp_path / "dashboard.yaml"
    # JSON is YAML.
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    # Of a recording rule it wants another name than ours: that is no fault of the expression.
    promtool("check", "rules", "--lint=none", str(path))


def test_nothing_is_asked_for_that_does_not_exist() -> None:
    for where, expression in asked():
        names = set(re.findall(r"callflow_\w+", expression))
        assert names <= EXPORTED.keys(), where
        for metric, label, value in labels_of(expression):
            assert label == metric.label, where
            assert value in metric.known, where
        labels = {EXPORTED[name].label for name in names} | OF_THE_SCRAPE
        for grouped in re.findall(r"(?:by|without) \(([^)]*)\)", expression):
            assert {one.strip() for one in grouped.split(",")} <= labels, where


def test_processes_that_tell_the_same_are_never_added_up() -> None:
    for where, expression in asked():
        assert not re.search(r"\b(sum|avg|count) ?(by ?\(|\()", expression), where
    for where, expression in asked():
        added = re.findall(r"sum without \(([^)]*)\)", expression)
        assert "instance" not in "".join(added), where


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {
        EXPORTED[name].name
        for panel in panels()
        for target in panel.get("targets", ())
        for name in re.findall(r"callflow_\w+", target["expr"])
    }
    assert shown == {one.name for one in METRICS}


def test_the_dashboard_has_its_rows_and_no_panel_lies_on_another() -> None:
    rows = [panel["title"] for panel in panels() if panel["type"] == "row"]
    assert rows == ["Callers", "Takeovers", "Workers", "Model", "Store and records"]
    assert len({panel["id"] for panel in panels()}) == len(panels())
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"], panel["title"]
            assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
