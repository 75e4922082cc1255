"""Test the remedy for a failure by the messages of ssh, apt, dpkg and sshd, as recorded in tests/hosts."""

from __future__ import annotations

import pytest

from gpufleet.remote.next_step import append_next_step, suggest_next_step
from gpufleet.remote.progress import find_failure_reason

CHANGED = """Failed to connect to the host via ssh: @@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:hSO9BPeBTpkLpuoCFLxbVWyCP3sPVkbdqXbjUw2mDtA.
Please contact your system administrator.
Add correct host key in /home/me/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/me/.ssh/known_hosts:4
Host key for 198.18.25.14 has changed and you have requested strict checking.
Host key verification failed."""


def test_changed_host_key_is_reported_in_one_line_with_key_and_file():
    failure = find_failure_reason({"msg": CHANGED})
    assert failure == (
        "Host key verification failed: the host shows SHA256:hSO9BPeBTpkLpuoCFLxbVWyCP3sPVkbdqXbjUw2mDtA (ED25519), "
        "/home/me/.ssh/known_hosts:4 has another key"
    )
    assert "ssh-keygen -R" in suggest_next_step(failure)


@pytest.mark.parametrize("cause", [".: [Errno 32] Broken pipe", ": [Errno 32] Broken pipe"])
def test_ssh_that_ended_before_it_was_read_is_named_as_such(cause):
    """Recorded on a busy machine, in both forms: the ssh plugin found the pipe closed, and ssh not ended yet."""
    message = (
        "Task failed: Data could not be sent to remote host '198.18.19.14'. Make sure this host can be reached over SSH"
        + cause
    )
    failure = find_failure_reason({"msg": message})
    assert failure == "ssh ended before Ansible had sent its data, and Ansible did not read why"
    assert suggest_next_step(failure).startswith("run ssh to its address")


@pytest.mark.parametrize(
    ("reason", "helps"),
    [
        ("No ED25519 host key is known for 198.18.25.14 and you have requested strict checking.", "console"),
        ("ops@198.18.25.11: Permission denied (publickey).", "ansible_user"),
        (
            "/var/lib/dpkg/lock-frontend is still held by apt-get (process 30) after 2 s",
            "let that process finish",
        ),
        ("cannot install a: no space left: Write error - write (28: No space left on device)", "free space"),
        (
            "x.conf was not changed: sshd would not let root in (AllowUsers)",
            "hardening_sshd_settings",
        ),
        ("Timeout, server 198.18.25.12 not responding.", "power"),
        ("ssh: connect to host 198.18.25.12 port 22: Connection refused", "power"),
        ("Connection to 198.18.25.12 closed by remote host.", "power"),
        (
            "banner exchange: Connection to UNKNOWN port 65535: Broken pipe",
            "cloud machines are only simulated",
        ),
        ("Connection closed by UNKNOWN port 65535", "in a rehearsal, cloud machines are only simulated"),
        ("gf-made is unpacked and could not be repaired: broken", "dpkg --audit"),
    ],
)
def test_reason_of_a_failure_gives_its_remedy(reason, helps):
    assert helps in suggest_next_step(reason)
    assert append_next_step(reason) == f"{reason}; next: {suggest_next_step(reason)}"


@pytest.mark.parametrize(
    "reason", ["", "Set the hostname: invalid name", "no package foo in this host's package lists"]
)
def test_unknown_reason_has_no_next_step(reason):
    assert append_next_step(reason) == reason
