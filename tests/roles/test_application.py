"""Test container files on a booted Debian 13: installed as they are, checked by podman's generator and docker compose.

Rehearsed hosts run no containers. Where services start here, sleeping processes are FAKES of podman's container and of
what ``docker compose up`` starts; units, order, restarts and removal are systemd's own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

PLAYS = ("application",)
HERE = Path(__file__).parent
ROLE = HERE.parents[1] / "modules/ansible_collections/gpufleet/fleet/roles/application"
EXAMPLES = HERE.parents[1] / "docs/examples/containers"
QUADLETS, COMPOSE = "/etc/containers/systemd/gpufleet", "/etc/gpufleet/compose/llm/compose.yaml"
INSTALLED = {
    f"{QUADLETS}/trainer.container": EXAMPLES / "trainer.container",
    f"{QUADLETS}/training.network": EXAMPLES / "training.network",
    COMPOSE: EXAMPLES / "llm/compose.yaml",
}
SERVICES = ("trainer.service", "gpufleet-compose@llm.service")
SECRET = "not-for-artifacts"
GENERATOR = "/usr/lib/systemd/system-generators/podman-system-generator"


@pytest.fixture(scope="module")
def runs(converge_play):
    return converge_play("application")


@pytest.fixture
def host(runs, lab):
    """Give the server once its application is installed."""
    return lab.host(runs.hosts[0])


def run_in_turn(lab, *variables):
    """Run the play with each of these variables in turn, in one run; return what changed each time."""
    (play,) = YAML(typ="safe").load(HERE / "plays/application.yml")
    plays = [
        {**play, "name": f"Turn {turn}", "vars": {**play["vars"], **more}}
        for turn, more in enumerate(variables)
    ]
    run = lab.run(json.dumps(plays) + "\n")
    assert run.failure_text("base13") is None
    return [run.select_plays(play["name"]).changed_tasks("base13") for play in plays]


def installed_as(path):
    """Return an example's name among the role's container files."""
    return path.name if path.suffix != ".yaml" else "llm.yaml"


def container_files(**texts):
    """Return the examples as the role takes them, some with another text; without those whose text is None."""
    files = {installed_as(path): path.read_text() for path in INSTALLED.values()}
    files.update({name.replace("_", "."): text for name, text in texts.items()})
    return [{"name": name, "content": text} for name, text in files.items() if text is not None]


def active_state(host, *services):
    return [host.run("systemctl is-active %s", service).stdout.strip() for service in services]


def test_check_mode_works_and_the_second_run_changes_nothing(runs):
    runs.assert_idempotent()


def test_files_are_installed_as_they_are(host):
    for path, source in INSTALLED.items():
        assert host.file(path).content_string == source.read_text()
        assert host.file(path).mode == 0o644


def test_podman_makes_a_service_of_the_quadlet_and_systemd_loads_both(host):
    properties = "-p LoadState -p UnitFileState -p PartOf -p RequiresMountsFor -p Requires -p ExecStart"
    quadlet = host.check_output(f"systemctl show trainer.service {properties}")
    compose = host.check_output(f"systemctl show gpufleet-compose@llm.service {properties}")
    for shown in (quadlet, compose):
        assert "LoadState=loaded" in shown
        assert "PartOf=gpufleet-application.target" in shown
        assert "/var/lib/gpufleet/volumes/scratch" in shown
    assert "UnitFileState=generated" in quadlet
    assert "--device nvidia.com/gpu=all" in quadlet
    assert "training-network.service" in quadlet
    assert "docker.service" in compose


def test_secrets_are_readable_by_root_only_and_in_no_artifact(host, runs):
    file = host.file("/etc/gpufleet/secrets/hf")
    assert (file.mode, file.user, file.content_string) == (0o400, "root", f"HF_TOKEN={SECRET}")
    for run in (runs.check, runs.first, runs.second):
        assert SECRET not in run.stdout
        assert all(SECRET not in str(result.output) for result in run.results)


def test_features_missing_on_a_rehearsed_host_are_reported(runs):
    (not_applied,) = [
        r.output["application_not_applied"]
        for r in runs.second.results
        if "application_not_applied" in r.output
    ]
    assert set(not_applied["containers"]) == set(SERVICES)
    assert "application" not in not_applied


# Container file, what is edited in it, what the refusal says.
REJECTED = (
    ("trainer_container", ("ShmSize", "ShmSiez"), "unsupported key 'ShmSiez'"),
    ("training_network", ("Subnet", "Subnt"), "unsupported key 'Subnt'"),
    ("trainer_container", ("training.network", "gone.network"), "gone.network"),
    ("llm_yaml", ("shm_size", "shm_siez"), "shm_siez"),
    ("llm_yaml", ("depends_on: [cache]", "depends_on: [gone]"), "gone"),
)
MISSING_SECRET = (
    "trainer_container",
    ("ShmSize", "Secret=licence\nShmSize"),
    "podman secret licence is not on the node: docs/containers.md",
)


@pytest.fixture(scope="module")
def refusals(runs, lab):
    """Ask for all refused files in one run; give each message with what is installed after it."""
    (play,) = YAML(typ="safe").load(HERE / "plays/application.yml")
    look = {
        "name": "Read what is installed",
        "ansible.builtin.command": {"argv": ["cat", *INSTALLED]},
        "changed_when": False,
    }
    play["tasks"] = []
    for name, edit, _ in (*REJECTED, MISSING_SECRET):
        source = next(path for path in INSTALLED.values() if installed_as(path) == name.replace("_", "."))
        files = container_files(**{name: source.read_text().replace(*edit)})
        role = {
            "name": "Ask for it",
            "ansible.builtin.include_role": {"name": "gpufleet.fleet.application"},
            "vars": {
                "application_container_files": files,
                "application_start": (name, edit) == MISSING_SECRET[:2],
            },
        }
        play["tasks"].append({"name": "Refused", "block": [role], "rescue": [look]})
    run = lab.run(json.dumps([play]) + "\n")
    messages = [result.output["msg"] for result in run.results_of("base13", "failed")]
    contents = [r.output["stdout"] for r in run.results_of("base13") if r.task == look["name"]]
    return list(zip(messages, contents, strict=True))


def test_application_without_its_secrets_is_refused_and_nothing_changes(refusals):
    message, installed = refusals[len(REJECTED)]
    assert MISSING_SECRET[2] in message
    assert "Secret=licence" not in installed


@pytest.mark.parametrize("case", range(len(REJECTED)), ids=[case[2] for case in REJECTED])
def test_file_that_its_engine_rejects_is_refused_and_not_installed(refusals, case):
    message, installed = refusals[case]
    assert REJECTED[case][2] in message
    assert installed == "".join(path.read_text() for path in INSTALLED.values()).rstrip("\n")


def test_compose_file_is_checked_before_its_variables_are_there(host):
    """The check happens in check mode too, when the files of secrets are not written yet."""
    script = (ROLE / "files/verify.sh").read_text()
    text = INSTALLED[COMPOSE].read_text().replace("secrets/hf", "secrets/not-there")
    host.run_expect([0], "cat > /run/candidate <<'END'\n" + text + "END")
    assert host.run("sh -c %s verify docker compose /etc/gpufleet/compose/new /run/candidate", script).rc == 0


FAKES = r"""
mkdir -p /etc/systemd/system/trainer.service.d
printf '[Service]\nType=exec\nExecStart=\nExecStart=/bin/sleep infinity\nExecStop=\nExecStopPost=\n' \
  > /etc/systemd/system/trainer.service.d/zz-fake.conf
printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n' > /etc/systemd/system/docker.service
printf '[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n' \
  > /etc/systemd/system/training-network.service
[ -e /usr/bin/docker.real ] || mv /usr/bin/docker /usr/bin/docker.real
cat > /usr/bin/docker <<'END'
#!/bin/sh
case "$*" in
  "compose up"*|"compose down"*) echo "$2 in $PWD" >> /run/compose-calls; [ "$2" = up ] || sleep 1 ;;
  *) exec -a docker /usr/bin/docker.real "$@" ;;
esac
END
sed -i '1s|.*|#!/bin/bash|' /usr/bin/docker
chmod 755 /usr/bin/docker
systemctl daemon-reload
"""


@pytest.fixture(scope="module")
def started(runs, lab):
    """Start the application with FAKES of what podman and docker would run, twice; give what changed each time."""
    lab.host("base13").run_expect([0], FAKES)
    return run_in_turn(lab, {"application_start": True}, {"application_start": True})


def compose_calls(host):
    return [line.split()[0] for line in host.check_output("cat /run/compose-calls").splitlines()]


def test_services_start_now_and_at_boot_and_stay_as_they_are(started, host):
    assert active_state(host, *SERVICES, "gpufleet-application.target") == ["active"] * 3
    units = "gpufleet-compose@llm.service gpufleet-application.target"
    assert host.run(f"systemd-analyze verify --man=no {units}").stderr == ""
    assert host.service("gpufleet-compose@llm.service").is_enabled
    assert host.file("/var/lib/gpufleet/volumes/scratch").is_directory
    assert host.check_output("cat /run/compose-calls") == "up in /etc/gpufleet/compose/llm"
    assert [bool(changed) for changed in started] == [True, False]


def test_changed_file_restarts_its_service_once(started, lab, host):
    before = host.check_output("systemctl show trainer.service -p MainPID")
    changed = INSTALLED[COMPOSE].read_text().replace("redis:7", "redis:8")
    files = container_files(llm_yaml=changed)
    variables = {"application_start": True, "application_container_files": files}
    run_in_turn(lab, variables, variables)
    assert compose_calls(host) == ["up", "down", "up"]
    assert host.check_output("systemctl show trainer.service -p MainPID") == before


def test_stopping_the_target_stops_every_service_and_the_next_run_starts_them(started, lab, host):
    """The role wipe stops the target by its pattern before it touches a drive."""
    assert "gpufleet-application.*" in (ROLE.parent / "wipe/defaults/main.yml").read_text()
    listed = host.check_output(
        "systemctl list-units --state=active --plain --no-legend 'gpufleet-application.*'"
    )
    assert listed.startswith("gpufleet-application.target")
    host.run_expect([0], "systemctl stop -- 'gpufleet-application.*'")
    assert active_state(host, *SERVICES, "gpufleet-application.target") == ["inactive"] * 3
    host.run_expect([0], "systemctl stop -- 'gpufleet-application.*'")
    run_in_turn(lab, {"application_start": True})
    assert active_state(host, *SERVICES) == ["active"] * 2


def test_file_that_is_no_longer_named_is_stopped_and_removed(started, lab, host):
    """A unit that a release before container files rendered is removed likewise."""
    host.run_expect(
        [0],
        "printf \"# Written by gpufleet from the node's template; x\\n[Service]\\nExecStart=/bin/sleep infinity\\n"
        '[Install]\\nWantedBy=multi-user.target\\n" > /etc/systemd/system/gpufleet-old.service;'
        "systemctl daemon-reload && systemctl enable --now gpufleet-old.service",
    )
    variables = {"application_start": True, "application_container_files": container_files(llm_yaml=None)}
    _, changed_again = run_in_turn(lab, variables, variables)
    assert active_state(host, *SERVICES) == ["active", "inactive"]
    assert not host.file(COMPOSE).exists
    for unit in ("gpufleet-compose@llm.service", "gpufleet-old.service"):
        assert not host.run("systemctl is-enabled %s", unit).stdout.startswith("enabled")
    assert host.check_output("systemctl show gpufleet-old -p LoadState") == "LoadState=not-found"
    assert changed_again == []
    run_in_turn(lab, {"application_start": True, "application_container_files": []})
    assert active_state(host, "trainer.service", "gpufleet-application.target") == ["inactive"] * 2
    assert host.check_output(f"ls {QUADLETS}") == ""
    assert "ExecStart" not in host.check_output(
        "systemctl cat trainer.service 2>/dev/null | grep podman || true"
    )
