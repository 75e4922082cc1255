"""Test the application of a template on a booted server: accepted services, private secrets, no leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest

PLAYS = ("application",)
ROLE = Path(__file__).parents[2] / "modules/ansible_collections/gpufleet/fleet/roles/application"
SERVER, CACHE = "/etc/systemd/system/gpufleet-server.service", "/etc/systemd/system/gpufleet-cache.service"
SECRET = "not-for-artifacts"


@pytest.fixture(scope="module")
def runs(converge_play):
    return converge_play("application")


@pytest.fixture
def host(runs, lab):
    """Give the server once its application is installed."""
    return lab.host(runs.hosts[0])


def test_check_mode_works_and_the_second_run_changes_nothing(runs):
    runs.assert_idempotent()


def test_units_are_installed_and_accepted_by_systemd(host):
    for path in (SERVER, CACHE):
        assert host.file(path).mode == 0o644
        completed = host.run(f"systemd-analyze verify {path}")
        assert "gpufleet-" not in completed.stderr
    properties = host.check_output("systemctl show gpufleet-server -p ExecStart -p Requires -p LoadState")
    assert "LoadState=loaded" in properties
    assert "gpufleet-cache.service" in properties
    for options in (
        "--device=nvidia.com/gpu=0 --device=nvidia.com/gpu=1",
        "--publish=8000:8000",
        "/models:ro",
    ):
        assert options in properties


def test_values_with_special_characters_reach_podman_unchanged(host):
    """Put a program in podman's place that prints its arguments, and let systemd start it as it would podman."""
    unit = host.file(SERVER).content_string
    printing_unit = unit.replace("/usr/bin/podman", "/bin/printf '%%s\\n' podman").replace(
        "Type=notify", "Type=oneshot"
    )
    lines = [
        line
        for line in printing_unit.splitlines()
        if not line.startswith(("ExecStartPre", "ExecStop", "Re", "Assert"))
    ]
    host.run_expect([0], "cat > /run/systemd/system/words.service <<'END'\n" + "\n".join(lines) + "\nEND")
    host.run_expect([0], "systemctl daemon-reload && systemctl start words.service && journalctl --flush")
    printed = host.check_output("journalctl -u words.service -o cat")
    host.run_expect([0], "rm /run/systemd/system/words.service && systemctl daemon-reload")
    assert '--env=GREETING=100 % of $HOME "quoted"' in printed.splitlines()


def test_secrets_are_readable_by_root_only_and_in_no_unit_or_artifact(host, runs):
    file = host.file("/etc/gpufleet/secrets/tls")
    assert (file.mode, file.user, file.content_string) == (0o400, "root", SECRET)
    assert SECRET not in host.check_output("cat /etc/systemd/system/gpufleet-*.service")
    for run in (runs.check, runs.first, runs.second):
        assert SECRET not in run.stdout
        assert all(SECRET not in str(result.output) for result in run.results)


def test_features_missing_on_a_rehearsed_host_are_reported(runs):
    (not_applied,) = [
        r.output["application_not_applied"]
        for r in runs.second.results
        if "application_not_applied" in r.output
    ]
    assert set(not_applied["containers"]) == {"gpufleet-server.service", "gpufleet-cache.service"}
    assert not_applied["application"] == ["podman secret hf is not on the node: docs/templates.md, Secrets"]
    assert "has no digest" in not_applied["warnings"][0]


def run_application_play(lab, **more):
    """Run the play with other variables."""
    return lab.run(Path(__file__).parent / "plays/application.yml", extra_vars=more)


def test_application_that_could_not_start_is_refused_with_the_reason(runs, lab, host):
    before = host.file(SERVER).content_string
    run = run_application_play(lab, application_start=True)
    assert "podman secret hf is not on the node" in run.failure_text("nv01")
    assert host.file(SERVER).content_string == before


def test_removed_container_leaves_no_unit(runs, lab, host):
    run = run_application_play(
        lab, gpufleet_application={"containers": [{"image": "docker.io/library/redis:7", "name": "cache"}]}
    )
    assert run.failure_text("nv01") is None
    assert not host.file(SERVER).exists
    assert host.file(CACHE).exists
    assert "--network=host" not in host.file(CACHE).content_string
    assert "not-found" in host.check_output("systemctl show gpufleet-server -p LoadState")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[Service]\nExecStart=/bin/true\nRestrt=always\n", "Unknown key 'Restrt'"),
        ('[Service]\nExecStart="unclosed\n', "Unbalanced quoting"),
        ("[Unit]\nDescription=nothing to start\n", "no ExecStart="),
    ],
)
def test_unit_that_systemd_rejects_is_refused(host, text, message):
    host.run_expect([0], "cat > /run/candidate <<'END'\n" + text + "END")
    script = (ROLE / "files/verify.sh").read_text()
    completed = host.run("sh -c %s verify /run/candidate gpufleet-x.service", script)
    assert completed.rc == 1
    assert message in completed.stdout + completed.stderr


def test_quadlet_without_a_generator_is_refused(host):
    script = (ROLE / "files/verify.sh").read_text()
    completed = host.run("sh -c %s verify /etc/hostname gpufleet-x.container ''", script)
    assert (completed.rc, completed.stdout.strip()) == (1, "podman has no generator for quadlets here")
