"""The rules as Prometheus alerts: promtool's unit tests of each, examples that it accepts, a dashboard it can ask."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from gpufleet.operations.watch import prometheus
from gpufleet.operations.watch.rule import load_watch_rules

RULES = load_watch_rules()


@pytest.fixture
def folder(tmp_path):
    names = {"rules": prometheus.RULES_FILE, "tests": "tests.yml", "prometheus": "prometheus.yml"}
    for format_name, name in names.items():
        (tmp_path / name).write_text(prometheus.export_rules(RULES, format_name))
    (tmp_path / "targets.json").write_text("[]")
    return tmp_path


def promtool(folder, *arguments):
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: gpufleet doctor --fix --tests")
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_each_rule_fires_and_rests_in_promtool(folder):
    code, text = promtool(folder, "test", "rules", "tests.yml")
    assert code == 0, text
    assert (folder / "tests.yml").read_text().count("    name: ") == 2 * len(RULES)


def test_unit_tests_notice_a_wrong_rule(folder):
    file = folder / prometheus.RULES_FILE
    text = file.read_text()
    file.write_text(text.replace(") > 90", ") > 99"))
    assert file.read_text() != text
    code, answer = promtool(folder, "test", "rules", "tests.yml")
    assert code != 0
    assert "GpufleetGpuHot" in answer


def test_rules_have_different_names_and_the_example_configuration_is_valid(folder):
    names = {prometheus.name_alert(rule) for rule in RULES}
    assert len(names) == len(RULES)
    code, text = promtool(folder, "check", "config", "prometheus.yml")
    assert code == 0, text
    assert f"SUCCESS: {len(RULES)} rules found" in text
    assert "FAILED" not in text  # duplicates: promtool prints FAILED, and exits 0


def test_prometheus_can_ask_what_the_dashboard_plots(folder):
    dashboard = json.loads(prometheus.export_rules(RULES, "dashboard"))
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    rules = [{"record": f"x:{number}", "expr": text} for number, text in enumerate(expressions)]
    (folder / "panels.yml").write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}))
    code, text = promtool(folder, "check", "rules", "panels.yml")
    assert code == 0, text
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    metrics = {rule.metric for rule in RULES if not rule.event}
    assert all(any(metric in text for text in expressions) for metric in metrics)
