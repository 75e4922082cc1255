"""Test passports: signed, verified offline with the file and the public key alone, and refused after any change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from gpufleet.burnin import passport as pure
from gpufleet.cli.passport import passport_command
from gpufleet.errors import CheckFailed, InputError
from gpufleet.nodes import (
    NodeIdentity,
    NodeObservation,
    ObservedFault,
    ObservedPart,
    PartObservation,
    Registry,
)
from gpufleet.operations import passport

GPU = ObservedPart("gpu", "1650321001234", "GPU-b01b80eb-0f18-1df0", "NVIDIA H100 80GB HBM3", "0000:18:00.0")


def run_command(*arguments):
    return CliRunner().invoke(passport_command, [str(argument) for argument in arguments])


@pytest.fixture
def issued(first_issued, tmp_path):
    """Give a copy of the folder of keys and passports."""
    folder = tmp_path / "issued"
    shutil.copytree(first_issued, folder)
    return folder


@pytest.fixture(scope="module")
def first_issued(tmp_path_factory):
    """Issue the passports of a healthy and of a quarantined node once."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        return issue_passports(tmp_path_factory.mktemp("issuer"), monkeypatch)


def issue_passports(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/registry.db"
    monkeypatch.setenv("GPUFLEET_DATABASE_URL", url)
    monkeypatch.setenv("LOGNAME", "ann")
    with Registry(url) as registry:
        for number, verdict in ((1, "healthy"), (2, "faulty")):
            name, place = f"gpu0{number}", NodeIdentity(f"SERVER000{number}", rack="r1", slot=str(number))
            registry.apply_observation(
                NodeObservation("rack:r1", name, place, declared={"kind": "gpu_server"})
            )
            registry.advance_node(name, "commissioning", "answered")
            check = {"name": "gpu_xid", "outcome": "fail" if number == 2 else "pass", "measured": 1.5}
            check |= {"unit": "events", "threshold": 0.0, "threshold_source": "", "reason": "größer als 2⁵³"}
            report = {"verdict": verdict, "checks": [check], "huge": 2**60}
            faults = (ObservedFault("xid_79", "gpu_xid", "gone", "gpu", GPU.position),) if number == 2 else ()
            seen = PartObservation((GPU,) if number == 2 else (), faults)
            registry.record_burn_in_result(name, f"a{number}", report, [{}], reason=verdict, seen=seen)
    assert run_command("keygen", tmp_path / "key").exception is None
    for name in ("gpu01", "gpu02"):
        result = run_command("issue", name, "--key", tmp_path / "key", "--out", tmp_path / f"{name}.json")
        assert result.exception is None, result.exception
    return tmp_path


def verify(folder, name="gpu01.json", key="key.pub"):
    return passport.verify_passport_file(folder / name, folder / key)


def test_passport_is_verified_with_file_and_public_key_alone(issued, tmp_path_factory):
    away = tmp_path_factory.mktemp("away")
    for name in ("gpu01.json", "key.pub"):
        (away / name).write_bytes((issued / name).read_bytes())
    result = subprocess.run(
        [sys.executable, "-m", "gpufleet", "passport", "verify", "gpu01.json", "--key", "key.pub"],
        cwd=away, env={"PATH": os.environ["PATH"], "HOME": str(away)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stdout.startswith("valid: gpu01, issued 20")
    assert result.stdout.endswith("\nhealthy\n")
    assert sorted(path.name for path in away.iterdir()) == ["gpu01.json", "key.pub"]


def test_passport_has_identity_results_history_and_parts(issued):
    document = verify(issued, "gpu02.json")
    assert (document["node"]["serial"], document["issued_by"]) == ("SERVER0002", "ann")
    assert [part["serial"] for part in document["parts"]] == ["SERVER0002", GPU.serial]
    assert document["parts"][1]["faults"][0]["next_step"] == "reboot"
    assert [result["verdict"] for result in document["results"]] == ["faulty"]
    assert document["history"][-1]["to"] == "quarantined"
    assert document["report"]["huge"] == str(2**60)


def test_passport_of_an_unhealthy_node_says_so(issued):
    document = verify(issued, "gpu02.json")
    assert document["healthy"] is False
    assert document["statement"].startswith("NOT healthy: quarantined (faulty: faulty)")
    assert document["evidence"][0]["name"] == "gpu_xid"
    arguments = ("verify", issued / "gpu02.json", "--key", issued / "key.pub")
    assert "NOT healthy" in run_command(*arguments).stdout
    refused = run_command(*arguments, "--require-healthy").exception
    assert isinstance(refused, CheckFailed)


def test_node_with_a_hold_is_not_healthy(issued):
    with Registry(f"sqlite:///{issued}/registry.db") as registry:
        registry.set_node_hold("gpu01", "operator", "mine")
        document = passport.build_passport(registry, registry.get_node("gpu01"), "ann")
    assert "hold operator: mine" in document["statement"]


def rewrite(change):
    """Return a change of the decoded file, written in canonical form again."""
    import rfc8785

    def apply(content):
        document = json.loads(content)
        change(document)
        return rfc8785.dumps(document) + b"\n"

    return apply


TAMPERED = {
    "field": (rewrite(lambda d: d["passport"].update(healthy=False)), "the signature is wrong"),
    "nested": (rewrite(lambda d: d["passport"]["node"].update(serial="OTHER")), "the signature is wrong"),
    "added": (rewrite(lambda d: d["passport"].update(extra=1)), "the signature is wrong"),
    "signature": (rewrite(lambda d: d.update(signature="A" * 86 + "==")), "the signature is wrong"),
    "no signature": (rewrite(lambda d: d.pop("signature")), "must have exactly a passport and a signature"),
    "no base64": (rewrite(lambda d: d.update(signature="ä")), "must have exactly a passport and a signature"),
    "more": (rewrite(lambda d: d.update(note="x")), "must have exactly a passport and a signature"),
    "key id": (
        rewrite(lambda d: d["passport"].update(key_id="SHA256:x")),
        "was signed by the key SHA256:x, not by",
    ),
    "key id of several lines": (
        rewrite(lambda d: d["passport"].update(key_id="a\nb")),
        r"by the key a\nb, not by",
    ),
    "format": (rewrite(lambda d: d["passport"].update(format="other/1")), "is not a passport of the format"),
    "indented": (
        lambda content: json.dumps(json.loads(content), indent=2).encode(),
        "rewritten after it was signed",
    ),
    "reordered": (
        lambda content: json.dumps(
            dict(reversed(json.loads(content).items())), separators=(",", ":")
        ).encode(),
        "rewritten after it was signed",
    ),
    "duplicate key": (
        lambda content: content.replace(b'{"passport":{', b'{"passport":{"healthy":false,', 1),
        "rewritten after it was signed",
    ),
    "without end": (lambda content: content[:-1], "rewritten after it was signed"),
    "truncated": (lambda content: content[: len(content) // 2], "is cut off or not a passport"),
    "empty": (lambda content: b"", "is cut off or not a passport"),
    "binary": (lambda content: b"\xff\x00" + content, "is cut off or not a passport"),
    "list": (lambda content: b"[]", "is cut off or not a passport"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_changed_file_is_refused_in_one_line(issued, name):
    change, problem = TAMPERED[name]
    path = issued / "gpu01.json"
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CheckFailed) as caught:
        verify(issued)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_any_changed_byte_is_refused(issued):
    path = issued / "gpu01.json"
    content = path.read_bytes()
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 1
        path.write_bytes(changed)
        with pytest.raises(CheckFailed):
            verify(issued)


def test_other_key_is_refused_with_both_ids(issued):
    passport.create_key(issued / "other")
    with pytest.raises(CheckFailed, match=r"was signed by the key SHA256:\S+, not by SHA256:"):
        verify(issued, key="other.pub")


def test_signature_for_another_purpose_is_refused(issued):
    import base64

    import rfc8785

    key = passport.load_private_key(issued / "key")
    document = json.loads((issued / "gpu01.json").read_bytes())
    document["signature"] = base64.b64encode(key.sign(rfc8785.dumps(document["passport"]))).decode()
    with pytest.raises(CheckFailed, match="the signature is wrong"):
        pure.verify_passport(rfc8785.dumps(document) + b"\n", key.public_key(), "x")


def test_key_files_are_private_and_never_replaced(issued):
    assert (issued / "key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(InputError, match="exists already"):
        passport.create_key(issued / "key")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644])
def test_private_key_that_others_may_read_is_refused(issued, mode):
    (issued / "key").chmod(mode)
    with pytest.raises(InputError, match=rf"others may read this key \(mode {mode:04o}\); chmod 600"):
        passport.load_private_key(issued / "key")


def write_key(path, kind):
    options = {"rsa": ["-t", "rsa", "-b", "1024"], "encrypted": ["-t", "ed25519", "-N", "secret"]}
    subprocess.run(
        [
            "ssh-keygen",
            "-q",
            "-m",
            "PEM",
            "-f",
            path,
            *options[kind],
            *([] if kind == "encrypted" else ["-N", ""]),
        ],
        check=True,
    )


@pytest.mark.parametrize("content", ["rsa", "encrypted", "garbage", "public"])
def test_other_keys_are_refused_in_one_line(issued, content):
    path = issued / content
    if content in ("rsa", "encrypted"):
        write_key(path, content)
    else:
        path.write_bytes(b"\x00garbage" if content == "garbage" else (issued / "key.pub").read_bytes())
    path.chmod(0o600)
    problem = "is a public key" if content == "public" else "is not an unencrypted Ed25519 private key in PEM"
    with pytest.raises(InputError, match=problem):
        passport.load_private_key(path)
    if content != "public":
        with pytest.raises(InputError, match="is not an Ed25519 public key in PEM"):
            passport.load_public_key(path)
