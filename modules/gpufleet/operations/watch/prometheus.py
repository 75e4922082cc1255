"""The rules of the watch for Prometheus: alerts with their unit tests, examples of configuration, a dashboard. Pure.

Targets are those of `gpufleet nodes targets`: the exporter is `job`, the node's name `instance`. All files are YAML or
JSON with JSON's quotes, which both read alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpufleet.boundary import decode_exposition
from gpufleet.burnin.kernel_event import classify_xid, load_xid_rows
from gpufleet.operations.watch.condition import NO_VALUE
from gpufleet.operations.watch.rule import ANY, RULE_LABEL, WatchRule

RULES_FILE = "gpufleet-rules.yml"
MEMORY = "1h"
"""How long Prometheus remembers a series that is gone."""
EVENT_MEMORY = "5m"
"""How long an alert about an event fires, and how long a target must have answered before it."""
TARGET_LABELS = ("instance", "job")


def export_rules(rules: Sequence[WatchRule], format_name: str) -> str:
    """Return the rules in a format of ``FORMATS``."""
    return "".join(f"{line}\n" for line in FORMATS[format_name](rules))


def name_alert(rule: WatchRule) -> str:
    """Return the alert's name of a rule: ``GpufleetNvmeGone``."""
    return "Gpufleet" + "".join(word.capitalize() for word in rule.rule.split("_"))


def build_expression(rule: WatchRule) -> str:
    """Return a rule as PromQL."""
    selector = _build_selector(rule)
    matching = ", ".join((*TARGET_LABELS, *rule.by))
    grouped = ", ".join(dict.fromkeys((*TARGET_LABELS, *rule.by, *filter(None, [rule.position]))))
    worst = "min" if rule.below is not None else "max"

    def group(inner: str) -> str:
        return f"{worst} by ({grouped}) ({inner})" if rule.by else inner

    if rule.event:
        # The label of the code changes with the value (err_code), so that changes() of a series sees nothing.
        value = _exclude_harmless_codes(f"{group(selector)} > 0")
        before = f"max by ({matching}) ({selector} offset {EVENT_MEMORY})"
        was_watched = f"on (instance, job) up offset {EVENT_MEMORY} == 1"
        return f"({value} unless on ({matching}) ({value} == on ({matching}) {before})) and {was_watched}"
    if rule.gone:
        answered = "on (instance, job) up == 1"
        before = group(f"last_over_time({selector}[{MEMORY}])")
        now = f"on ({matching}) {group(selector)}"
        return f"({before} unless {now}) and {answered}"
    if rule.gain is not None:
        return f"{group(f'increase({selector}[{rule.within_s:.0f}s])')} > {rule.gain:g}"
    if rule.divided_by:
        selector = f"{selector} / {rule.divided_by}{{job={json.dumps(rule.exporter)}}}"
    if rule.exporter == "dcgm":
        selector = f"{selector} < {NO_VALUE:g}"  # DCGM's values from there on mean "not known"
    bound = f"> {rule.above:g}" if rule.above is not None else f"< {rule.below:g}"
    return f"{group(selector)} {bound}"


def _build_selector(rule: WatchRule) -> str:
    # `kind` is a label of our targets alone
    job = 'kind!=""' if rule.exporter == ANY else f"job={json.dumps(rule.exporter)}"
    where = [f"{name}=~{json.dumps(pattern)}" for name, pattern in rule.where.items()]
    return f"{rule.metric}{{{', '.join([job, *where])}}}"


def _exclude_harmless_codes(expression: str) -> str:
    """Return an expression without the XIDs that are not fatal in burn-in's dictionary."""
    codes = [code for code in sorted(load_xid_rows()) if classify_xid(code, "") != "fatal"]
    return f"({expression} {' '.join(f'!= {code}' for code in codes)})"


def _write_rules(rules: Sequence[WatchRule]) -> Iterator[str]:
    yield "# Written by gpufleet watch export rules. By gpufleet_rule, gpufleet watch --listen knows an alert's rule."
    yield "groups:"
    yield "  - name: gpufleet-watch"
    yield "    rules:"
    for rule in rules:
        yield f"      - alert: {name_alert(rule)}"
        yield f"        expr: {json.dumps(build_expression(rule))}"
        if rule.for_s:
            yield f"        for: {rule.for_s:.0f}s"
        yield "        labels:"
        yield from (
            f"          {name}: {json.dumps(text)}" for name, text in _list_alert_labels(rule).items()
        )
        yield "        annotations:"
        yield from (f"          {name}: {json.dumps(text)}" for name, text in _list_annotations(rule).items())


def _list_alert_labels(rule: WatchRule) -> dict[str, str]:
    return {RULE_LABEL: rule.rule, "severity": "critical" if rule.action == "act" else "warning"}


def _list_annotations(rule: WatchRule) -> dict[str, str]:
    return {"summary": f"{{{{ $labels.instance }}}}: {rule.meaning}", "description": rule.source}


def _write_tests(rules: Sequence[WatchRule]) -> Iterator[str]:
    """Yield unit tests for promtool: each rule's example that fires, and the one that does not."""
    yield "# Written by gpufleet watch export tests, for: promtool test rules FILE"
    yield f"rule_files: [{RULES_FILE}]"
    yield "tests:"
    for rule in rules:
        for values, fires in ((rule.example.fires, True), (rule.example.rests, False)):
            yield from _write_test(rule, values, fires=fires)


def _write_test(rule: WatchRule, values: str, *, fires: bool) -> Iterator[str]:
    from gpufleet.operations.watch.rule import expand_values

    step, steps = rule.example.step_s, len(expand_values(values))
    job = "node" if rule.exporter == ANY else rule.exporter
    target = {"instance": "blade01", "job": job} | ({"kind": "gpu_server"} if rule.exporter == ANY else {})
    labels = _read_series_labels(rule)
    series = {_write_series(rule.metric, labels | target): _mark_stale(values)}
    if rule.divided_by:
        series[_write_series(rule.divided_by, labels | target)] = rule.example.divisor
    if rule.gone or rule.event:
        series[_write_series("up", target)] = f"1x{steps - 1}"
    yield f"  - interval: {step}s"
    yield f"    name: {rule.rule} {'fires' if fires else 'rests'}"
    yield "    input_series:"
    for name, text in series.items():
        yield f"      - series: {json.dumps(name)}"
        yield f"        values: {json.dumps(text)}"
    yield "    alert_rule_test:"
    yield f"      - eval_time: {step * (steps - 1)}s"
    yield f"        alertname: {name_alert(rule)}"
    if not fires:
        yield "        exp_alerts: []"
        return
    kept = (*TARGET_LABELS, *rule.by, rule.position)
    found = {name: text for name, text in (labels | target).items() if not rule.by or name in kept}
    annotations = {**_list_annotations(rule), "summary": f"blade01: {rule.meaning}"}
    yield "        exp_alerts:"
    yield f"          - exp_labels: {json.dumps(found | _list_alert_labels(rule))}"
    yield f"            exp_annotations: {json.dumps(annotations)}"


def _read_series_labels(rule: WatchRule) -> dict[str, str]:
    (sample,) = decode_exposition(f"{rule.example.series} 1\n", rule.rule, {rule.metric})
    return dict(sample.labels)


def _write_series(name: str, labels: Mapping[str, str]) -> str:
    return f"{name}{{{', '.join(f'{label}={json.dumps(text)}' for label, text in labels.items())}}}"


def _mark_stale(values: str) -> str:
    """Return values as promtool takes them: a scrape without the series ends it, which promtool calls stale."""

    def replace_missing(match: re.Match[str]) -> str:
        more = int(match[1] or 1) - 1
        return "stale" + (f" _x{more}" if more else "")

    return re.sub(r"(?<!\S)_(?:x(\d+))?(?!\S)", replace_missing, values)


def _write_prometheus(_: Sequence[WatchRule]) -> Iterator[str]:
    yield from (
        "# Example of prometheus.yml; targets.json is written by: gpufleet nodes targets --output targets.json",
        "global: {scrape_interval: 15s, evaluation_interval: 15s}",
        f"rule_files: [{RULES_FILE}]",
        "alerting:",
        "  alertmanagers:",
        '    - static_configs: [{targets: ["127.0.0.1:9093"]}]',
        "scrape_configs:",
        "  - job_name: gpufleet",
        "    file_sd_configs: [{files: [targets.json]}]",
    )


def _write_alertmanager(_: Sequence[WatchRule]) -> Iterator[str]:
    yield from (
        "# Example of alertmanager.yml; gpufleet watch --listen 127.0.0.1:9099 --token-file token",
        "route:",
        "  receiver: nobody",
        "  routes:",
        f'    - matchers: [{RULE_LABEL}!=""]',
        "      receiver: gpufleet",
        "      group_by: [instance]",
        "      group_wait: 5s",
        "      group_interval: 1m",
        "      repeat_interval: 4h",
        "receivers:",
        "  - name: nobody",
        "  - name: gpufleet",
        "    webhook_configs:",
        '      - url: "http://127.0.0.1:9099/alerts"',
        "        send_resolved: true",
        "        http_config:",
        "          authorization: {type: Bearer, credentials_file: /etc/prometheus/gpufleet-token}",
    )


def build_dashboard(rules: Sequence[WatchRule]) -> dict[str, Any]:
    """Return a dashboard of Grafana: the fleet, the alerts that fire, and a plot for each metric of a rule."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    panels: list[dict[str, Any]] = []

    def add(kind: str, title: str, expression: str, place: tuple[int, int, int, int], **more: Any) -> None:
        x, y, width, height = place
        panels.append(
            {
                "id": len(panels) + 1, "type": kind, "title": title, "datasource": source,
                "gridPos": {"x": x, "y": y, "w": width, "h": height},
                "targets": [{"refId": "A", "datasource": source, "expr": expression, **more.pop("target", {})}],
                **more,
            }
        )  # fmt: skip

    add("stat", "Nodes", 'count(count by (instance) (up{kind!=""}))', (0, 0, 6, 4))
    add("stat", "Exporters that do not answer", 'count(up{kind!=""} == 0) or vector(0)', (6, 0, 6, 4))
    add(
        "stat",
        "Nodes by state",
        'count by (state) (count by (instance, state) (up{kind!=""}))',
        (12, 0, 12, 4),
    )
    alerts = f'ALERTS{{alertstate="firing", {RULE_LABEL}!="", instance=~"$instance"}}'
    add("table", "Findings", alerts, (0, 4, 24, 8), target={"instant": True, "format": "table"})
    plotted = {
        (rule.exporter, rule.metric): rule
        for rule in reversed(rules)
        if not rule.event and rule.exporter != ANY
    }
    for number, rule in enumerate(reversed(plotted.values())):
        selector = _build_selector(rule.model_copy(update={"where": {"instance": "$instance"} | rule.where}))
        if rule.divided_by:
            selector = f"{selector} / {rule.divided_by}"
        steps = [{"color": "green", "value": None}]
        if rule.threshold is not None and rule.gain is None:
            steps.append({"color": "red", "value": rule.threshold})  # type: ignore[dict-item]  # numbers and None
        custom = {"thresholdsStyle": {"mode": "line"}}
        add(
            "timeseries", f"{rule.metric} ({rule.exporter})", selector,
            (12 * (number % 2), 12 + 8 * (number // 2), 12, 8),
            description=f"{rule.meaning}: {rule.condition}",
            fieldConfig={
                "defaults": {"custom": custom, "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": [],
            },
        )  # fmt: skip
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        {
            "name": "instance", "type": "query", "datasource": source, "query": 'label_values(up{kind!=""}, instance)',
            "multi": True, "includeAll": True, "allValue": ".*", "refresh": 2,
            "current": {"text": "All", "value": "$__all"},
        },
    ]  # fmt: skip
    return {
        "uid": "gpufleet-watch", "title": "gpufleet: nodes in use", "tags": ["gpufleet"], "schemaVersion": 38,
        "version": 1, "editable": True, "refresh": "30s", "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": variables}, "panels": panels,
    }  # fmt: skip


def _write_dashboard(rules: Sequence[WatchRule]) -> Iterator[str]:
    yield json.dumps(build_dashboard(rules), indent=2)


FORMATS: Mapping[str, Callable[[Sequence[WatchRule]], Iterator[str]]] = {
    "rules": _write_rules,
    "tests": _write_tests,
    "prometheus": _write_prometheus,
    "alertmanager": _write_alertmanager,
    "dashboard": _write_dashboard,
}
