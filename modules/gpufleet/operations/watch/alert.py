"""Alerts that Alertmanager sends (webhook, version "4"): each alert of a message alone becomes a finding of its node.

Ran against Alertmanager 0.25.0: `status` of the group is firing while one alert fires, an alert has its own; the key
of an alert is `fingerprint` and `startsAt`; repeats come for as long as it fires, and resolved alerts may come of which
the firing one never came.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpufleet.boundary import NODE_REPORT, decode_json_object, make_printable
from gpufleet.errors import InputError
from gpufleet.operations.watch.finding import Finding
from gpufleet.operations.watch.rule import RULE_LABEL, normalize_position
from gpufleet.operations.watch.session import WatchSession

VERSION = "4"
MAX_ALERTS = 1000
MAX_LABEL = 200
STATUSES = ("firing", "resolved")


@dataclass(frozen=True)
class Alert:
    """One alert of a message."""

    key: str
    is_firing: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]


def decode_alerts(text: str) -> list[Alert]:
    """Return the alerts of a message; InputError for one that is not Alertmanager's."""
    where = "alert message"
    document = decode_json_object(text, where, NODE_REPORT)
    if document.get("version") != VERSION:
        raise InputError(f"expected version {VERSION!r}", where=where, key="version")
    alerts = document.get("alerts")
    if not isinstance(alerts, list) or len(alerts) > MAX_ALERTS:
        raise InputError(f"must be a list of at most {MAX_ALERTS} alerts", where=where, key="alerts")
    return [_decode_alert(alert, f"alerts.{number}") for number, alert in enumerate(alerts)]


def _decode_alert(alert: Any, key: str) -> Alert:
    where = "alert message"
    if not isinstance(alert, dict):
        raise InputError("is not an alert", where=where, key=key)
    status, start, print_ = (alert.get(name) for name in ("status", "startsAt", "fingerprint"))
    if status not in STATUSES or not isinstance(start, str) or not isinstance(print_, str) or not print_:
        raise InputError("must have status, startsAt and fingerprint", where=where, key=key)
    labels, annotations = (_decode_texts(alert.get(name)) for name in ("labels", "annotations"))
    if "alertname" not in labels:
        raise InputError("has no label alertname", where=where, key=key)
    return Alert(f"{print_[:64]} {start[:64]}", status == "firing", labels, annotations)


def _decode_texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {
        make_printable(name, 64): make_printable(text, MAX_LABEL)
        for name, text in list(value.items())[:64]
        if isinstance(text, str)
    }


def take_alerts(session: WatchSession, alerts: list[Alert]) -> dict[str, int]:
    """Apply alerts to the registry; return how many of each outcome. A repeat, or an unknown node, changes nothing."""
    outcomes: Counter[str] = Counter()
    with session.lock:
        for alert in alerts:
            outcomes[_take_alert(session, alert)] += 1
    return dict(outcomes)


def _take_alert(session: WatchSession, alert: Alert) -> str:
    now = session.clock.now()
    known = session.store.find_alert(alert.key)
    if known is None and not alert.is_firing:
        return "resolved, never seen firing"
    if known is not None and (alert.is_firing or known):
        session.store.save_alert(alert.key, now.timestamp(), ended=known)
        return "repeated"
    try:
        # `instance` is what our targets call the node; an exporter's own label is `exported_instance`
        node = session.registry.get_node(alert.labels.get("instance", ""))
    except InputError:
        return "unknown node"
    finding = _build_finding(session, alert, node.id, node.name)
    outcome = "off" if finding.action == "off" else session.apply_alert(finding).outcome
    session.store.save_alert(alert.key, now.timestamp(), ended=not alert.is_firing)
    return outcome


def _build_finding(session: WatchSession, alert: Alert, node_id: str, name: str) -> Finding:
    title = alert.labels["alertname"]
    text = alert.annotations.get("summary") or alert.annotations.get("description") or "no summary"
    finding = Finding(
        rule="alert",
        node_id=node_id,
        node=name,
        source=f"Alertmanager, alert {title}",
        meaning=text,
        at=session.clock.now(),
        is_open=alert.is_firing,
    )
    rule = session.policy.find_rule(alert.labels.get(RULE_LABEL, ""))
    if rule is not None:
        label = alert.labels.get(rule.position or "", "")
        return replace(
            finding,
            rule=rule.rule,
            meaning=rule.meaning,
            action=rule.action,
            measure=rule.measure,
            part=rule.part,
            position=normalize_position(rule.part, label) if label else "",
            fault=rule.fault,
        )
    own = next((each for each in session.policy.alerts if each.alert == title), None)
    if own is None:
        return finding
    return replace(finding, action=own.action, measure=own.measure, fault="watch.alert")
