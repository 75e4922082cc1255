"""Signing keys of repositories: fingerprints agree with gpg, and only the expected keys are trusted."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import signing_key
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

ALGORITHMS = ("rsa2048", "ed25519", "nistp256")


def run_gpg(home, *arguments, stdin=b""):
    return subprocess.run(
        ["gpg", "--homedir", home, "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", "", *arguments],
        input=stdin, capture_output=True, check=True,
    ).stdout  # fmt: skip


def gpg_fingerprints(home, data):
    """Return the fingerprints of the primary keys that gpg reads from a key file."""
    lines = run_gpg(home, "--show-keys", "--with-colons", stdin=data).decode().splitlines()
    return [
        after.split(":")[9]
        for before, after in itertools.pairwise(lines)
        if before.startswith("pub:") and after.startswith("fpr:")
    ]


@pytest.fixture(scope="module")
def keyring(tmp_path_factory):
    """Give a gpg home with a key of each algorithm, each with a subkey, and their public files."""
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    exported = {}
    for algorithm in ALGORITHMS:
        user = f"{algorithm} <{algorithm}@example.org>"
        run_gpg(home, "--quick-generate-key", user, algorithm, "sign", "never")
        run_gpg(home, "--quick-add-uid", user, f"second <second-{algorithm}@example.org>")
        exported[algorithm] = (
            run_gpg(home, "--export", user),
            run_gpg(home, "--armor", "--comment", "a: comment", "--export", user),
        )
    yield home, exported
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("form", [0, 1])
def test_fingerprint_is_the_one_that_gpg_reports(keyring, algorithm, form):
    home, exported = keyring
    data = exported[algorithm][form]
    assert signing_key.list_key_fingerprints(data, "key") == gpg_fingerprints(home, data)


def test_only_the_expected_key_of_a_file_is_kept_and_gpg_reads_the_result(keyring):
    home, exported = keyring
    both = exported["rsa2048"][0] + exported["ed25519"][0]
    wanted = gpg_fingerprints(home, exported["ed25519"][0])
    selected = signing_key.select_signing_keys(both, wanted, "key").encode()
    assert gpg_fingerprints(home, selected) == wanted
    assert signing_key.select_signing_keys(selected, wanted, "key").encode() == selected


def test_two_armoured_keys_in_one_file_are_both_read(keyring):
    home, exported = keyring
    joined = exported["rsa2048"][1] + b"\n" + exported["nistp256"][1]
    assert len(gpg_fingerprints(home, joined)) == 2
    assert signing_key.list_key_fingerprints(joined, "key") == gpg_fingerprints(home, joined)


def test_another_key_is_refused_with_both_fingerprints_and_the_remedy(keyring):
    home, exported = keyring
    seen, expected = gpg_fingerprints(home, exported["rsa2048"][0])[0], "AB" * 20
    with pytest.raises(
        HostError, match=f"has the fingerprint {seen}, expected {expected}. If the vendor changed"
    ):
        signing_key.select_signing_keys(exported["rsa2048"][1], [expected], "https://example.org/key")


@pytest.mark.parametrize(
    "data", [b"", b"<html>not found</html>", b"\x99\x01", b"-----BEGIN PGP PUBLIC KEY BLOCK-----"]
)
def test_something_else_than_a_key_is_refused(data):
    with pytest.raises(HostError, match="x: is not an OpenPGP public key"):
        signing_key.list_key_fingerprints(data, "x")


def test_secret_key_is_refused(keyring):
    home, _ = keyring
    secret = run_gpg(home, "--export-secret-keys", "rsa2048@example.org")
    with pytest.raises(HostError, match="contains a secret key"):
        signing_key.list_key_fingerprints(secret, "x")


def test_every_cut_of_a_key_is_refused_or_has_its_fingerprint(keyring):
    home, exported = keyring
    data = exported["ed25519"][0]
    expected = gpg_fingerprints(home, data)
    whole_packets = set()
    for length in range(len(data)):
        try:
            whole_packets.add(tuple(signing_key.list_key_fingerprints(data[:length], "x")))
        except HostError:
            continue
    assert whole_packets == {tuple(expected)}


@pytest.mark.parametrize("text", ["3BF863CC", "A4B469963BF863CC", "xyz", ""])
def test_short_id_is_not_a_fingerprint(text):
    with pytest.raises(HostError, match="is not the fingerprint of a key"):
        signing_key.normalize_fingerprint(text)


def test_fingerprint_may_have_spaces_and_small_letters():
    assert signing_key.normalize_fingerprint("eb69 3b30" + "00" * 16) == "EB693B30" + "00" * 16


def test_key_of_version_6_has_the_fingerprint_of_the_specification():
    """The sample certificate of RFC 9580, appendix A.3; gpg 2.2 cannot read it."""
    data = (
        b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n"
        b"xioGY4d/4xsAAAAg+U2nu0jWCmHlZ3BqZYfQMxmZu52JGggkLq2EVD34laPCsQYf\n"
        b"GwoAAABCBYJjh3/jAwsJBwUVCg4IDAIWAAKbAwIeCSIhBssYbE8GCaaX5NUt+mxy\n"
        b"KwwfHifBilZwj2Ul7Ce62azJBScJAgcCAAAAAK0oIBA+LX0ifsDm185Ecds2v8lw\n"
        b"gyU2kCcUmKfvBXbAf6rhRYWzuQOwEn7E/aLwIwRaLsdry0+VcallHhSu4RN6HWaE\n"
        b"QsiPlR4zxP/TP7mhfVEe7XWPxtnMUMtf15OyA51YBM4qBmOHf+MZAAAAIIaTJINn\n"
        b"+eUBXbki+PSAld2nhJh/LVmFsS+60WyvXkQ1wpsGGBsKAAAALAWCY4d/4wKbDCIh\n"
        b"BssYbE8GCaaX5NUt+mxyKwwfHifBilZwj2Ul7Ce62azJAAAAAAQBIKbpGG2dWTX8\n"
        b"j+VjFM21J0hqWlEg+bdiojWnKfA5AQpWUWtnNwDEM0g12vYxoWM8Y81W+bHBw805\n"
        b"I8kWVkXU6vFOi+HWvv/ira7ofJu16NnoUkhclkUrk0mXubZvyl4GBg==\n"
        b"-----END PGP PUBLIC KEY BLOCK-----\n"
    )
    assert signing_key.list_key_fingerprints(data, "x") == [
        "CB186C4F0609A697E4D52DFA6C722B0C1F1E27C18A56708F6525EC27BAD9ACC9"
    ]
