"""Test enrolment of a machine owner key; messages are those of mokutil 0.6.0 (Debian 12)."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.fleet.plugins.modules import mok

PASSWORD = "only-once-12"


class ModuleExitError(Exception):
    pass


class Host:
    """A fake Ansible module on a host with fake firmware."""

    def __init__(
        self, monkeypatch, tmp_path, *, secure="SecureBoot enabled", known="is not enrolled", **parameters
    ):
        self.certificate = tmp_path / "mok.pub"
        self.certificate.write_bytes(b"DER")
        self.secure, self.known, self.calls, self.check_mode = (
            secure,
            known,
            [],
            parameters.pop("check", False),
        )
        self.installed = parameters.pop("installed", True)
        self.takes = parameters.pop("takes", True)
        self.params = {"certificates": [str(self.certificate)], "password": "", **parameters}
        self.ended = {}
        monkeypatch.setattr(mok, "AnsibleModule", lambda **_: self)

    def get_bin_path(self, name, required=False):
        return f"/usr/bin/{name}" if self.installed else None

    def run_command(self, argv, data=None):
        self.calls.append((argv[1:], data))
        if argv[1] == "--sb-state":
            return 0, self.secure, ""
        if argv[1] == "--import":
            if self.takes:
                self.known = "is already in the enrollment request"
            return 0, "input password: \ninput password again: ", ""
        return 0, f"{argv[2]} {self.known}", ""

    def exit_json(self, **result):
        self.ended = result
        raise ModuleExitError

    def fail_json(self, **result):
        self.ended = {"failed": True, **result}
        raise ModuleExitError

    def run(self):
        with pytest.raises(ModuleExitError):
            mok.main()
        return self.ended


@pytest.fixture
def host(monkeypatch, tmp_path):
    return lambda **settings: Host(monkeypatch, tmp_path, **settings)


def test_no_key_is_requested_without_secure_boot(host):
    secure_host = host(secure="SecureBoot disabled", password=PASSWORD)
    assert secure_host.run()["state"] == "not_needed"
    assert [argv for argv, _ in secure_host.calls] == [["--sb-state"]]


def test_key_is_requested_once_with_console_instructions(host):
    secure_host = host(password=PASSWORD)
    result = secure_host.run()
    assert (result["state"], result["changed"]) == ("pending", True)
    assert "Enroll MOK" in result["not_applied"]
    second_result = secure_host.run()
    assert (second_result["state"], second_result["changed"]) == ("pending", False)
    assert [argv[0] for argv, _ in secure_host.calls].count("--import") == 1


def test_password_is_passed_only_on_standard_input(host):
    secure_host = host(password=PASSWORD)
    secure_host.run()
    assert [data for argv, data in secure_host.calls if argv[0] == "--import"] == [
        f"{PASSWORD}\n{PASSWORD}\n"
    ]
    assert not any(PASSWORD in argument for argv, _ in secure_host.calls for argument in argv)


@pytest.mark.parametrize("message", ["is already enrolled", "is already in db"])
def test_enrolled_key_is_not_requested_again(host, message):
    result = host(known=message, password=PASSWORD).run()
    assert (result["state"], result["changed"], result["not_applied"]) == ("enrolled", False, "")


def test_missing_password_is_reported_with_a_remedy(host):
    result = host().run()
    assert result["state"] == "password_missing"
    assert "nvidia_driver_mok_password" in result["not_applied"]


def test_check_mode_requests_no_key(host):
    secure_host = host(password=PASSWORD, check=True)
    assert secure_host.run()["changed"]
    assert not [argv for argv, _ in secure_host.calls if argv[0] == "--import"]


def test_ineffective_request_is_a_failure(host):
    assert "does not list it" in host(password=PASSWORD, takes=False).run()["msg"]


def test_too_short_password_is_refused(host):
    assert "must have 8 to 16 characters, got 3" in host(password="abc").run()["msg"]


def test_key_is_missing_before_the_first_module_is_built(host):
    secure_host = host(password=PASSWORD)
    secure_host.certificate.unlink()
    assert secure_host.run()["state"] == "no_key"


@pytest.mark.parametrize(
    "settings", [{"installed": False}, {"secure": "EFI variables are not supported on this system"}]
)
def test_unknown_secure_boot_state_is_reported(host, settings):
    result = host(password=PASSWORD, **settings).run()
    assert result["state"] == "cannot"
    assert result["not_applied"]
