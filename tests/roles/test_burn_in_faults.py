"""Test burn-in's agent on a booted blade with injected faults: the verdict of each, and that nothing survives.

The table of docs/burn-in-agent.md is what these runs found: ``--regenerate`` writes it.
"""

from __future__ import annotations

import base64
import json
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cuda_software import build_fake_cuda
from gpufleet import burnin
from gpufleet.burnin.agent import supervisor

HOST = "blade02"
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/burn-in-agent.md"
TABLE_START, TABLE_END = (
    "<!-- faults: written by tests/roles/test_burn_in_faults.py -->",
    "<!-- end of faults -->",
)
AGENT = "/run/gpufleet/agent.pyz"
STATE = "/var/lib/gpufleet/fault-tests"
CHECKS = ("cpu", "memory", "storage", "network", "pi_throttled", "pi_temperature", "nvme_link")
MARK = "GPUFLEET_FAULT_MARK"
TOOL = "/usr/local/bin/vcgencmd"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# A tool whose grandchildren hide: in a session of their own, deaf to SIGTERM, with the tool's output still open.
HIDING = "setsid sh -c \"trap '' TERM HUP; sleep 600\" & (setsid sleep 601 &) ;"


@dataclass(frozen=True)
class Fault:
    """One fault: what is done to the host before and after, how the agent runs, and what must come of it."""

    name: str
    verdict: str
    check: str = ""
    outcome: str = "pass"
    reason: str = ""
    before: str = "true"
    after: str = "true"
    params: tuple[str, ...] = ()
    checks: tuple[str, ...] = CHECKS
    environment: str = ""
    exit_code: int = 0
    agent: str = "python3 $AGENT run $OPTIONS"


def replace_tool(script):
    """Put a script in the place of vcgencmd; for questions other than the flags the fake tool still answers."""
    text = f'#!/bin/sh\n[ "$1" = get_throttled ] || exec {TOOL}.kept "$@"\n{script}\n'
    encoded = base64.b64encode(text.encode()).decode()
    return f"mv {TOOL} {TOOL}.kept; echo {encoded} | base64 -d > {TOOL}; chmod +x {TOOL}"


RESTORE_TOOL = f"mv -f {TOOL}.kept {TOOL}"
# A network of its own behind the host, so that the test's SSH session is not slowed: each packet takes three
# quarters of a second. Nothing else may wait in that queue, or an answer comes later than the agent waits (1 s): no
# IPv6 (not every kernel has it), no ARP.
SLOW_NETWORK = """ip netns add far; ip link add near type veth peer name far netns far
ip -n far link set far address 02:00:0a:fe:fe:02
echo 1 > /proc/sys/net/ipv6/conf/near/disable_ipv6
ip addr add 10.254.254.1/30 dev near; ip link set near up
ip -n far addr add 10.254.254.2/30 dev far; ip -n far link set far up
ip neigh replace 10.254.254.2 lladdr 02:00:0a:fe:fe:02 nud permanent dev near
tc qdisc add dev near root tbf rate 790bit burst 100 latency 60s"""
WAIT_FOR_CPU = 'until grep -q \'"begin", "name": "cpu"\' $OUT 2>/dev/null; do sleep 0.1; done'
KILL_FRONT = f"python3 $AGENT run $OPTIONS -p cpu_seconds=600 >/dev/null & {WAIT_FOR_CPU}; kill -9 $!; wait"
# All processes of the agent at once, as a node that loses its power: stopped first, so that none sees another one end.
# Then the boot has another name.
ALL_OF_THE_AGENT = f"-f '^python3 {AGENT[:-4]}[.]pyz'"
CRASH = (
    f"python3 $AGENT run $OPTIONS -p cpu_seconds=600 >/dev/null & {WAIT_FOR_CPU};"
    f" pkill -STOP {ALL_OF_THE_AGENT}; pkill -9 {ALL_OF_THE_AGENT}; wait; rm -f $OUT;"
    f" cat /proc/sys/kernel/random/uuid > /tmp/boot-id-$N;"
    f" umount {BOOT_ID} 2>/dev/null; mount --bind /tmp/boot-id-$N {BOOT_ID}"
)

FAULTS = (
    Fault("none", "healthy"),
    Fault(
        "slow network: three quarters of a second a packet (tbf)", "degraded", "network", "warn",
        "the peer answers slowly",
        before=SLOW_NETWORK, after="ip link del near; ip netns del far", params=("peer=10.254.254.2",),
    ),
    Fault(
        "full disk", "faulty", "storage", "fail", "could not be written",
        before="mkdir -p /mnt/full; mount -t tmpfs -o size=8m tmpfs /mnt/full; cat /dev/zero > /mnt/full/x",
        after="umount /mnt/full", params=("scratch=/mnt/full",),
    ),
    Fault(
        "fio reads a wrong block back (recorded report)", "faulty", "storage", "fail", "fio",
        before="install -m 755 /tmp/fio-stub /usr/local/bin/fio", after="rm /usr/local/bin/fio",
        params=("fio_seconds=1",),
    ),
    Fault(
        "a tool hangs, with children in other sessions", "incomplete", "pi_throttled", "not_run",
        "no answer within 10 s",
        before=replace_tool(f"{HIDING} exec sleep 602"), after=RESTORE_TOOL,
    ),
    Fault(
        "a tool leaves processes behind", "healthy", "pi_throttled", "pass",
        before=replace_tool(f'{HIDING} exec {TOOL}.kept "$@"'), after=RESTORE_TOOL,
    ),
    Fault(
        "a tool is missing", "incomplete", "pi_throttled", "not_run", "vcgencmd is not installed",
        before=f"mv {TOOL} {TOOL}.kept", after=RESTORE_TOOL,
    ),
    Fault(
        "a tool prints garbage and escape sequences", "incomplete", "pi_throttled", "not_run",
        "not the output of get_throttled",
        before=replace_tool("printf '\\033[31m\\377\\376\\000garbage'"), after=RESTORE_TOOL,
    ),
    Fault(
        "a tool prints 2 GB", "incomplete", "pi_throttled", "not_run",
        before=replace_tool("yes | head -c 2000000000"), after=RESTORE_TOOL,
    ),
    Fault("the agent is killed, and started again", "healthy", agent=f"{KILL_FRONT}; python3 $AGENT run $OPTIONS"),
    Fault(
        "the node goes down under load once", "degraded", "crash", "warn", "the node went down during cpu",
        agent=f"N=1; {CRASH}; python3 $AGENT run $OPTIONS",
    ),
    Fault(
        "the node goes down under load twice", "faulty", "crash", "fail", "more than once",
        agent=f"N=2; {CRASH}; N=3; {CRASH}; python3 $AGENT run $OPTIONS",
    ),
    Fault(
        "the clock is ten minutes off", "faulty", "clock", "fail", "ahead of the controller's",
        checks=("clock", *CHECKS), params=("controller_time=$(($(date +%s) - 600))",),
    ),
    Fault(
        "the GPU flips a bit (stand-in driver)", "faulty", "gpu_compute", "fail", "wrong",
        checks=(*CHECKS, "gpu_compute"), environment="FAKE_CUDA_MIB=256",
        params=("gpu_library=/tmp/libcuda.so.1", "gpu_size=256", "gpu_seconds=0.01", "gpu_flip_bit=1"),
    ),
    Fault(
        "a job runs (Slurm step)", "incomplete", "cpu", "not_run", "the node is busy: Slurm runs a job step",
        before="cp /bin/sleep /tmp/slurmstepd; /tmp/slurmstepd 600 & echo $! > /tmp/step.pid",
        after="kill $(cat /tmp/step.pid)", exit_code=5,
    ),
    Fault(
        "another agent measures the node", "incomplete", "cpu", "not_run", "the records do not contain this check",
        before="exec 9>/run/lock/other; flock 9; sleep 600 & echo $! > /tmp/other.pid; exec 9>&-",
        after="kill $(cat /tmp/other.pid)",
        exit_code=4, agent="python3 $AGENT run $OPTIONS --lock /run/lock/other",
    ),
)  # fmt: skip


@dataclass
class Runs:
    """The booted host and what the runs on it found."""

    shell: object
    reports: dict = field(default_factory=dict)

    def measure(self, fault):
        """Inject a fault, run the agent, take the fault back; return exit code, output and what survived."""
        out = f"/run/gpufleet/fault-{len(self.reports)}.jsonl"
        options = [f"--attempt f{len(self.reports)} --out {out} --state {STATE} -p rehearsal=1"]
        options += [f"--only {check}" for check in fault.checks]
        options += [
            f"-p sysfs=/etc/gpufleet-rehearsal/sys {' '.join(f'-p {param}' for param in fault.params)}"
        ]
        script = f"""
AGENT={AGENT} OUT={out}
exec 3>&1 >/dev/null 2>&1 </dev/null
{{ {fault.before}
}} 3>&-
OPTIONS="{" ".join(options)}"
( export {MARK}=1 {fault.environment}; {fault.agent} ) >&3 2>/dev/null
code=$?
sleep 0.2
grep -lz '^{MARK}=' /proc/[0-9]*/environ 2>/dev/null | while read file; do
  cd "${{file%environ}}" && grep -q '^State:.[^ZX]' status && tr '\\0' ' ' < cmdline | sed 's/^/survivor: /' >&3
done
{fault.after}
exit $code
"""
        result = self.shell.run("bash -c %s", script)
        lines = result.stdout.splitlines()
        records = [json.loads(line) for line in lines if line.startswith("{")]
        survivors = [line for line in lines if line.startswith("survivor: ") and "bash" not in line]
        report = burnin.judge_attempt(
            records, "compute_blade", "quick", rehearsal=True, is_configured=True, node=HOST
        )
        self.reports[fault.name] = report
        return result.rc, report, survivors


@pytest.fixture(scope="module")
def runs(lab, boot_hosts, tmp_path_factory):
    """Boot the blade and put agent, stand-in driver and recorded report on it."""
    boot_hosts(HOST)
    folder = tmp_path_factory.mktemp("files")
    burnin.build_agent_zipapp(folder / "agent.pyz")
    report = (ROOT / "tests/cases/burnin/recorded/fio/ours-wrong-block.json").read_text()
    (folder / "fio-stub").write_text(
        f"#!/bin/sh\n# FAKE: a recorded report\ncat <<'END'\n{report}\nEND\nexit 1\n"
    )
    library = build_fake_cuda(folder / "libcuda.so.1")
    shell = lab.host(HOST)
    shell.check_output(f"mkdir -p /run/gpufleet {STATE}")
    key = ["-i", lab.home / "ssh/id_ed25519", "-o", f"UserKnownHostsFile={lab.home}/ssh/known_hosts"]
    for name, target in (
        ("agent.pyz", AGENT),
        ("fio-stub", "/tmp/fio-stub"),
        (library.name, f"/tmp/{library.name}"),
    ):
        with (folder / name).open("rb") as file:
            command = f"cat > {shlex.quote(target)}"
            subprocess.run(
                ["ssh", "-F", "none", *key, f"root@{lab.address(HOST)}", command], stdin=file, check=True
            )
    return Runs(shell)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_has_its_verdict_and_leaves_no_process(runs, fault):
    code, report, survivors = runs.measure(fault)
    assert (code, survivors) == (fault.exit_code, [])
    assert report.verdict == fault.verdict, [check for check in report.checks if check.outcome != "pass"]
    if fault.check:
        check = report.find_check_result(fault.check)
        assert check.outcome == fault.outcome
        assert fault.reason in check.reason
        assert check.reason.isprintable()


PLAY = """
- name: Burn in for long
  hosts: {host}
  gather_facts: false
  become: true
  tasks:
    - name: Measure
      ansible.builtin.import_role: {{name: gpufleet.fleet.burn_in}}
"""


def test_standard_profile_survives_the_loss_of_its_connection(runs, lab):
    params = {"rehearsal": True, "sysfs": "/etc/gpufleet-rehearsal/sys", "cpu_seconds": 4}
    variables = {
        "gpufleet_rehearsal": True,
        "gpufleet_burn_in_profile": "standard",
        "burn_in_state_folder": f"{STATE}/long",
        "burn_in_params": params,
    }
    play = lab.home / "long.yml"
    play.write_text(PLAY.format(host=HOST))
    lab._write_inventory()
    # Under the supervisor, as gpufleet runs it: workers of Ansible outlive a killed ansible-playbook.
    argv = [sys.executable, supervisor.__file__, "--", "ansible-playbook", "-i", lab.home / "inventory"]
    extra = ["--limit", HOST, "-e", json.dumps(variables | {"burn_in_attempt": "lost"}), play]
    first = subprocess.Popen(
        [*argv, *extra], env=lab.env(), cwd=ROOT / "playbooks", stdout=subprocess.DEVNULL
    )
    while runs.shell.run("systemctl is-active --quiet gpufleet-burn-in").rc:
        assert first.poll() is None
        time.sleep(0.2)
    first.kill()
    first.wait()
    later = lab.run(play, HOST, extra_vars=variables | {"burn_in_attempt": "later"})
    (measured,) = [r for r in later.results_of(HOST, "ok") if "gpufleet" in r.output]
    event = measured.output["gpufleet"]
    records = event["records"]
    assert (event["attempt"], records[0]["attempt"], records[-1]["type"]) == ("later", "lost", "end")
    assert [r["round"] for r in records if r.get("name") == "cpu"] == [1, 2]
    clock = next(r for r in records if r.get("name") == "clock")
    assert abs(clock["raw"]["skew_s"]) < 100
    assert runs.shell.run("systemctl is-active gpufleet-burn-in").stdout.strip() == "inactive"


def format_table(reports):
    """Return the table of the docs."""
    rows = []
    for fault in FAULTS:
        report = reports[fault.name]
        result = report.find_check_result(fault.check) if fault.check else None
        found = f"{result.name}: {result.outcome}" if result else "all checks: pass"
        rows.append(f"| {fault.name} | {found} | `{report.verdict}` |")
    return "\n".join(["| fault | check | verdict |", "|---|---|---|", *rows])


def test_table_in_the_docs_is_what_was_found(runs, request):
    if len(runs.reports) < len(FAULTS):
        pytest.skip("only some of the faults were injected")
    text = PAGE.read_text()
    start, end = text.index(TABLE_START) + len(TABLE_START), text.index(TABLE_END)
    table = f"\n\n{format_table(runs.reports)}\n\n"
    if request.config.getoption("--regenerate"):
        PAGE.write_text(text[:start] + table + text[end:])
    assert PAGE.read_text()[start : start + len(table)] == table
