"""Alertmanager's webhook: messages of its form become findings, everything else is refused and changes nothing."""

from __future__ import annotations

import http.client
import json

import pytest

from gpufleet.errors import InputError
from gpufleet.operations.watch import webhook
from gpufleet.operations.watch.policy import parse_watch_policy

TOKEN = "a-token-of-twenty-ch"


def alert(rule="root_read_only", instance="gpu01", status="firing", print_="abc", **labels):
    named = {"alertname": "Any", "instance": instance, "gpufleet_rule": rule, **labels}
    return {
        "status": status, "labels": named, "annotations": {"summary": "it is so"}, "fingerprint": print_,
        "startsAt": "2026-11-29T00:00:00Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "",
    }  # fmt: skip


def message(*alerts, version="4"):
    """Return a message as Alertmanager 0.25.0 sends it."""
    return {
        "version": version, "receiver": "gpufleet", "status": "firing", "alerts": list(alerts), "groupLabels": {},
        "commonLabels": {}, "commonAnnotations": {}, "externalURL": "", "groupKey": "{}", "truncatedAlerts": 0,
    }  # fmt: skip


@pytest.fixture
def served(fleet, exporter):
    fleet.add("gpu01", node=exporter(""))
    fleet.add("gpu02", node=exporter(""))
    fleet.start()
    with webhook.serve_alerts(fleet.session, ("127.0.0.1", 0), TOKEN) as port:
        yield port


def post(port, body, *, token=TOKEN, path="/alerts", headers=()):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Authorization": f"Bearer {token}"} if token else {}
    connection.request("POST", path, data, {**sent, **dict(headers)})
    response = connection.getresponse()
    answer = response.status, json.loads(response.read())
    connection.close()
    return answer


def test_alerts_of_a_message_act_one_by_one_and_once(fleet, served):
    body = message(alert(device="/dev/nvme0n1p2"), alert("drive_media_errors", "gpu02", print_="b"))
    assert post(served, body) == (200, {"held": 1, "recorded": 1})
    assert post(served, body) == (200, {"repeated": 2})
    (hold,) = fleet.node("gpu01").holds
    assert hold.reason.startswith("watch: root_read_only on ")
    assert "Alertmanager, alert Any" in hold.reason
    assert fleet.node("gpu02").is_usable
    assert len(fleet.findings("gpu02")) == 1


def test_resolved_alert_is_recorded_and_releases_nothing(fleet, served):
    post(served, message(alert()))
    assert post(served, message(alert(status="resolved"))) == (200, {"recorded": 1})
    assert post(served, message(alert(status="resolved"))) == (200, {"repeated": 1})
    assert not fleet.node("gpu01").is_usable


def test_unknown_nodes_and_unseen_ends_are_answered_with_success(fleet, served):
    body = message(alert(instance="nobody"), alert(status="resolved", print_="new"))
    assert post(served, body) == (200, {"unknown node": 1, "resolved, never seen firing": 1})


def test_exporters_own_label_names_no_node(fleet, served):
    body = message(alert(instance="nobody", exported_instance="gpu01"))
    assert post(served, body) == (200, {"unknown node": 1})
    assert fleet.node("gpu01").is_usable


def test_alert_without_a_rule_is_recorded_unless_the_site_says_more(fleet, served):
    assert post(served, message(alert(rule="", print_="p"))) == (200, {"recorded": 1})
    fleet.session.policy = parse_watch_policy("alerts: [{alert: Any, action: act}]", "watch.yaml")
    assert post(served, message(alert(rule="", print_="q"))) == (200, {"held": 1})


@pytest.mark.parametrize(
    ("body", "options", "status"),
    [
        (message(alert()), {"token": None}, 401),
        (message(alert()), {"token": TOKEN + "x"}, 401),
        (message(alert()), {"path": "/other"}, 404),
        (b"x" * (webhook.MAX_BODY + 1), {}, 413),
        (b"{}", {"headers": {"Content-Length": "-1"}.items()}, 413),
        (b"not json", {}, 400),
        (b"\xff", {}, 400),
        (message(version="3"), {}, 400),
        ({"version": "4", "alerts": {}}, {}, 400),
        (message({"status": "firing"}), {}, 400),
        (message({**alert(), "status": "maybe"}), {}, 400),
    ],
)
def test_other_messages_are_refused(fleet, served, body, options, status):
    try:
        assert post(served, body, **options)[0] == status
    except (ConnectionResetError, BrokenPipeError):
        assert status == 413  # it answers before it has read all
    assert fleet.node("gpu01").is_usable
    assert fleet.findings("gpu01") == []


def test_rate_is_limited():
    now = [0.0]
    limit = webhook.RateLimit(2, 60.0, lambda: now[0])
    assert [limit.permits() for _ in range(3)] == [True, True, False]
    now[0] = 61.0
    assert limit.permits()


def test_other_addresses_need_a_token(monkeypatch, tmp_path):
    monkeypatch.delenv(webhook.TOKEN_VARIABLE, raising=False)
    assert webhook.load_token(None, "127.0.0.1") is None
    for address in ("0.0.0.0", "10.0.0.1", "::"):
        with pytest.raises(InputError, match="a token is needed"):
            webhook.load_token(None, address)
    file = tmp_path / "token"
    file.write_text("short\n")
    with pytest.raises(InputError, match="at least 16"):
        webhook.load_token(file, "127.0.0.1")
    file.write_text(f"{TOKEN}\n")
    assert webhook.load_token(file, "10.0.0.1") == TOKEN


@pytest.mark.parametrize("text", ["9099", "host:9099", "127.0.0.1:99999", "127.0.0.1:x", ""])
def test_wrong_addresses_are_refused(text):
    with pytest.raises(InputError, match="is not an address to listen on"):
        webhook.parse_listen_address(text)
