"""Test that every redaction rule removes its example, and keeps evidence."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import pytest

from gpufleet.operations.redaction import Redactor, load_redaction_rules

RULES = load_redaction_rules()
CASES = Path(__file__).resolve().parents[1] / "cases/burnin"


@pytest.mark.parametrize("rule", RULES.patterns, ids=lambda rule: rule.secret)
def test_every_pattern_removes_its_example(rule):
    redactor = Redactor()
    text = redactor.redact_text(f"before {rule.example}\nafter")
    assert rule.secret not in text
    assert f"<{rule.name}-1>" in text
    assert text.startswith("before")
    assert text.endswith("after")


@pytest.mark.parametrize("rule", RULES.learn, ids=lambda rule: rule.example)
def test_every_learned_name_is_removed_everywhere(rule):
    redactor = Redactor()
    redactor.learn(rule.example)
    assert rule.secret not in redactor.redact_text(
        f"{rule.example}\nseen {rule.secret.upper()}: {rule.secret}"
    )


@pytest.mark.parametrize(
    "evidence",
    [
        "NVRM: Xid (PCI:0000:18:00): 79, pid=17, name=train, GPU has fallen off the bus.",
        "GPU-b01b80eb-0f18-1df0-cf88-0725bd90f1e1 00000000:2A:00.0 0000:2a:00.0 serial 1650321001234",
        "driver 580.159.04 VBIOS 96.00.74.00.01 inforom G520.0200.00.05 libcuda.so.1 nvidia.ko",
        "2026-11-21T10:01:00Z 12:34:56 0x546fb0=0x11f000e PCIe 5 x16 27 C 700.00 W std::abs",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1)",
        "5e1c1b0d8f6a4b8d9a3ae2f0a1b2c3d4e5f60718293a4b5c6d7e8f9001122334",
    ],
)
def test_evidence_stays(evidence):
    redactor = Redactor(hosts=["gpu01"], users=["ann"])
    redactor.learn(evidence)
    assert redactor.redact_text(evidence) == evidence


def test_recorded_smi_reports_stay_whole():
    for path in sorted((CASES / "recorded/smi").glob("*.xml")):
        text = path.read_text()
        redactor = Redactor()
        assert redactor.redact_text(text) == text, path.name


def test_equal_values_get_equal_marks():
    text = Redactor().redact_text("10.0.0.1 to 10.0.0.2, back to 10.0.0.1")
    assert text == "<address-1> to <address-2>, back to <address-1>"


def test_known_hosts_are_removed_however_short():
    assert Redactor(hosts=["m2"]).redact_text("m2: m25 xm2 M2.lan") == "<host-2>: m25 xm2 <host-1>"


def test_packed_and_encoded_texts_do_not_hide_anything():
    secret = "10.9.8.7"
    packed = base64.b64encode(zlib.compress(f"from {secret}".encode())).decode()
    encoded = base64.b64encode(b"x" * 300 + secret.encode()).decode()
    value = {
        "xml": {"zlib_base64": packed},
        "bad": {"zlib_base64": "!"},
        "blob": encoded,
        "n": [1, None, True],
    }
    assert Redactor().redact_value(value) == {
        "xml": {"text": "from <address-1>"},
        "bad": {"text": "<removed: encoded>"},
        "blob": "<removed: encoded>",
        "n": [1, None, True],
    }


def test_keys_of_identity_are_removed_and_learned():
    redactor = Redactor()
    value = {"host": {"hostname": "trainbox", "machine_id": "0123"}, "line": "trainbox up"}
    redactor.learn_value(value)
    redacted = json.dumps(redactor.redact_value(value))
    assert "trainbox" not in redacted
    assert "0123" not in redacted


@pytest.mark.parametrize(
    "unit", ["a", "a.", "a-", "1.", "a:", "token", "-----BEGIN ", "x@", "/home/", " Linux x 1"]
)
def test_long_repetitions_are_read(unit):
    """Quadratic patterns would take minutes here."""
    text = unit * (200_000 // len(unit))
    redactor = Redactor()
    redactor.learn(text)
    assert redactor.redact_text(text)
