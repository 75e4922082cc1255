"""Test programs that try to reach secrets, network, files, processes and results, like a hostile pull request.

Each attack is made by a Python program and by a TypeScript program, which runs the attack in a process of its own.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program import evaluation, registration
from gpufleet.cost.inputs.program.sandbox import system_call, system_call_filter
from gpufleet.errors import EnvironmentFault, GpufleetError, InputError

HANG_GUARD_S = 60
CANARY = "canary-8f1e"
COMPONENT = "import pulumi\npulumi.ComponentResource('t:m:C', {name}, {{'value': {value}}})\n"


def can_confine():
    """Return True where this machine's kernel gives namespaces."""
    import ctypes

    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


confined = pytest.mark.skipif(
    sys.platform != "linux" or not can_confine(), reason="this kernel allows no namespaces"
)


class PythonLanguage:
    """The program is the attack. Descriptor 3 is the list of resources."""

    name = "python"
    runtime, file = "python", "__main__.py"
    open_result, end = "", "os._exit(0)\n"

    def write(self, text, value):
        return text + (COMPONENT.format(name="'c'", value=value) if value else "")

    def install(self, root):
        pass


class TypeScriptLanguage:
    """The program runs the attack. The list of resources is descriptor 3 of process 2, which serves the monitor."""

    name = "typescript"
    runtime, file = "nodejs", "index.ts"
    open_result = "import os\nos.dup2(os.open('/proc/2/fd/3', os.O_WRONLY), 3)\n"
    end = "os.kill(2, 9)\n"

    def __init__(self, node_modules):
        self._node_modules = node_modules

    def write(self, text, value):
        attack = text + (f"\nsys.stdout.write('ANSWER' + {value})\n" if value else "")
        answers = "pipe" if value else "inherit"
        return f"""
import * as pulumi from "@pulumi/pulumi";
import {{ spawnSync }} from "child_process";

const attack = spawnSync({json.dumps(sys.executable)}, ["-c", {json.dumps(attack)}], {{
    stdio: ["ignore", "{answers}", "inherit"], encoding: "utf-8", maxBuffer: 1 << 26,
}});
if (attack.status !== 0) process.exit(attack.status ?? 1);
if (attack.stdout) new pulumi.CustomResource("t:m:C", "c", {{ value: attack.stdout.split("ANSWER")[1] }});
"""

    def install(self, root):
        if not (root / "node_modules").exists():
            (root / "node_modules").symlink_to(self._node_modules)


@pytest.fixture(params=["python", "typescript"])
def language(request):
    if request.param == "python":
        return PythonLanguage()
    return TypeScriptLanguage(request.getfixturevalue("node_modules"))


@pytest.fixture
def write_hostile_program(tmp_path, language):
    """Make a project with a program that makes an attack, and registers a value of it; return its root."""

    def write(text, folder="hostile", value=""):
        root = tmp_path / folder
        root.mkdir(exist_ok=True)
        (root / "Pulumi.yaml").write_text(f"name: hostile\nruntime: {language.runtime}\n")
        (root / "Pulumi.dev.yaml").write_text("config: {}\n")
        (root / language.file).write_text(language.write(text, value))
        language.install(root)
        return root

    return write


@pytest.fixture
def evaluate_expression(write_hostile_program):
    """Evaluate an expression inside a program, and return what it gave as text."""

    def evaluate(expression, before="", **options):
        root = write_hostile_program(f"import os, sys\n{before}\n", value=f"str(({expression}))")
        resources = cost.evaluate_program(root, "dev", **options)
        return next(resource for resource in resources if resource.name == "c").inputs["value"]

    return evaluate


@pytest.fixture
def planted_secrets(monkeypatch, tmp_path):
    """Put secrets where people have them: in the environment and in the home folder."""
    for name in (
        "AWS_SECRET_ACCESS_KEY", "PULUMI_CONFIG_PASSPHRASE", "GPUFLEET_DATABASE_URL", "GITHUB_TOKEN", "GITHUB_ENV",
        "GITHUB_PATH", "ACTIONS_RUNTIME_TOKEN", "GITLAB_TOKEN", "CI_JOB_TOKEN", "SSH_AUTH_SOCK", "PULUMI_ACCESS_TOKEN",
    ):  # fmt: skip
        monkeypatch.setenv(name, CANARY)
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/credentials").write_text(CANARY)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_program_gets_no_secret_from_the_environment(evaluate_expression, planted_secrets, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    environment = evaluate_expression("dict(os.environ)")
    assert CANARY not in environment
    assert "eu-west-1" in environment
    assert str(planted_secrets) not in environment


def test_trusted_program_gets_the_environment_and_the_files(evaluate_expression, planted_secrets):
    assert CANARY in evaluate_expression("dict(os.environ)", trusted=True)
    assert (
        evaluate_expression(f"open({str(planted_secrets / '.aws/credentials')!r}).read()", trusted=True)
        == CANARY
    )


@confined
def test_program_sees_neither_the_home_folder_nor_secret_files_of_the_project(
    evaluate_expression, write_hostile_program, planted_secrets
):
    root = write_hostile_program("")
    for name in (".env", ".git/config", ".gpufleet/registry.db"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(CANARY)
    places = [
        str(planted_secrets / ".aws/credentials"),
        *(str(root / n) for n in (".env", ".git", ".gpufleet/registry.db")),
    ]
    (root / ".git/config").unlink()
    (root / ".git").rmdir()  # a folder without a repository
    (root / ".git-credentials").write_text(CANARY)
    assert evaluate_expression(f"[os.path.lexists(p) for p in {places!r}]") == str([False] * 4)
    assert evaluate_expression("[n for n in os.listdir('.') if n.startswith('.')]") == "[]"


@confined
def test_only_the_requested_stack_file_of_a_hidden_folder_is_visible(
    evaluate_expression, write_hostile_program
):
    folder = write_hostile_program("") / ".gpufleet/rehearsal/dev"
    folder.mkdir(parents=True)
    (folder / "registry.db").write_text(CANARY)
    stack = folder / "what-if.yaml"
    stack.write_text("config: {}\n")
    seen = evaluate_expression(f"open({str(stack)!r}).read(), os.listdir({str(folder)!r})", config_file=stack)
    assert seen == str(("config: {}\n", ["what-if.yaml"]))
    attempt = f"os.access({str(stack)!r}, os.W_OK), os.access({str(folder)!r}, os.W_OK)"
    assert evaluate_expression(attempt, config_file=stack) == "(False, False)"


@confined
def test_program_cannot_connect_to_local_servers(evaluate_expression):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        attempt = f"socket.socket().connect_ex(('127.0.0.1', {listener.getsockname()[1]}))"
        assert evaluate_expression(attempt, before="import socket") != "0"
        assert evaluate_expression(attempt, before="import socket", trusted=True) == "0"


SYSTEM_CALLS = """
import ctypes, errno, os, socket
from pathlib import Path
from gpufleet.cost.inputs.program.sandbox.system_call import IO_URING_SETUP, MACHINES
library = ctypes.CDLL(None, use_errno=True)
numbers = MACHINES[os.uname().machine].refused
for number in (*numbers, IO_URING_SETUP):
    assert library.syscall(number, 0, 0, 0, 0, 0) == -1
    assert ctypes.get_errno() == errno.EPERM, number
refused = []
for family in range(48):
    try:
        socket.socket(family, socket.SOCK_DGRAM).close()
    except OSError as error:
        refused += [family] * (error.errno == errno.EAFNOSUPPORT)
socket.socketpair()[0].close()
keys = [Path(f"/proc/{name}").read_text() for name in ("keys", "key-users") if Path(f"/proc/{name}").exists()]
"""


@confined
def test_program_reaches_no_kernel_keys_and_no_family_of_sockets_outside_its_namespace(evaluate_expression):
    refused, keys = json.loads(
        evaluate_expression("json.dumps([refused, keys])", f"import json\n{SYSTEM_CALLS}")
    )
    assert {1, 2, 10, 16} & set(refused) == set()
    assert set(range(48)) - set(refused) <= {1, 2, 10, 16}
    assert set(keys) <= {""}


@pytest.mark.parametrize("name", system_call.MACHINES)
def test_filter_of_every_machine_refuses_its_calls_and_those_of_other_machines(name):
    machine = system_call.MACHINES[name]
    is_big_endian = name == "s390x"
    steps = list(struct.iter_unpack("HBBI", system_call_filter.make_filter(machine, is_big_endian)))

    def judge(number, family=0, architecture=machine.architecture):
        """Run the filter as the kernel does."""
        order = ">" if is_big_endian else "<"
        data = struct.pack(f"{order}IIQQ", number, architecture, 0, family)
        position, value = 0, 0
        while True:
            code, if_true, if_false, operand = steps[position]
            position += 1
            if code == system_call_filter.RETURN:
                return operand
            if code == system_call_filter.LOAD:
                (value,) = struct.unpack_from(f"{order}I", data, operand)
            else:
                is_true = value == operand if code == system_call_filter.JUMP_IF_EQUAL else value >= operand
                position += if_true if is_true else if_false

    fail, allow = system_call_filter.FAIL, system_call_filter.ALLOW
    for number in (*machine.refused, system_call.IO_URING_SETUP):
        assert judge(number) == fail | errno.EPERM
        assert judge(number, architecture=machine.architecture ^ 1) == fail | errno.ENOSYS
        assert judge(number + 0x40000000) == fail | errno.ENOSYS
    for family in range(48):
        expected = allow if family in system_call_filter.FAMILIES else fail | errno.EAFNOSUPPORT
        assert judge(machine.socket, family) == expected
        assert judge(machine.socket, family | 1 << 32) == expected  # the kernel reads an int
    assert judge(0) == judge(machine.socket + 1) == judge(424) == allow


@confined
@pytest.mark.parametrize(
    "path", ["Pulumi.yaml", "/usr/bin/x", "/x", "/proc/sys/kernel/core_pattern", "/etc/x"]
)
def test_program_writes_only_to_its_own_folder(evaluate_expression, write_hostile_program, path):
    before = (
        "def attempt(p):\n  try:\n    open(p, 'a').close()\n    return 'written'\n"
        "  except OSError as e:\n    return type(e).__name__"
    )
    assert evaluate_expression(f"attempt({path!r})", before=before) in {"OSError", "PermissionError"}
    assert (
        evaluate_expression(
            "attempt(os.environ['TMPDIR'] + '/x'), attempt(os.environ['HOME'] + '/x')", before
        )
        == "('written', 'written')"
    )


@confined
def test_program_has_no_foreign_descriptors_and_no_privileges(evaluate_expression):
    listing = "ls = '/proc/self/fd/'"
    targets = evaluate_expression(
        "[os.readlink(ls + n) for n in os.listdir(ls) if os.path.lexists(ls + n)]", listing
    )
    kinds = {target.split(":")[0] for target in eval(targets)}
    assert kinds <= {"/dev/null", "pipe", "anon_inode", "socket"}  # the last two are asyncio's own, or Node's
    status = "[line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')]"
    assert set(eval(evaluate_expression(status))) == {"0" * 16}
    assert "No space" in evaluate_expression(
        "subprocess.run(['unshare', '-Ur', 'true'], capture_output=True).stderr", "import subprocess"
    )


GRANDCHILD = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(20):
            try: os.close(fd)
            except OSError: pass
        while True: time.sleep({seconds})
    os._exit(0)
{then}
"""


def wait_until_gone(namespaces, limit_s=HANG_GUARD_S):
    deadline = time.monotonic() + limit_s
    while process_ids := in_namespaces(namespaces):
        assert time.monotonic() < deadline, process_ids
        time.sleep(0.02)


def in_namespaces(namespaces):
    """Return the processes that are in one of these PID namespaces."""
    matches = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "ns/pid").readlink()) in namespaces:
                    matches.append(int(entry.name))
            except OSError:
                continue
    return matches


@confined
def test_grandchild_in_another_session_is_stopped_with_the_evaluation(evaluate_expression):
    namespace = evaluate_expression(
        "os.readlink('/proc/self/ns/pid')", GRANDCHILD.format(seconds=600, then="")
    )
    assert in_namespaces({namespace}) == []  # gone before the answer was given


@confined
def test_grandchild_is_stopped_when_the_evaluation_times_out(write_hostile_program):
    before = namespaces_below(os.getpid())
    with pytest.raises(EnvironmentFault, match="within 5 s"):
        cost.evaluate_program(
            write_hostile_program(GRANDCHILD.format(seconds=600, then="time.sleep(600)")), "dev", limit_s=5
        )
    assert namespaces_below(os.getpid()) <= before


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@confined
def test_grandchild_is_stopped_when_gpufleet_is_killed(write_hostile_program, tmp_path, signum):
    """The program says which namespace it is in through what it prints; then gpufleet gets the signal."""
    root = write_hostile_program(GRANDCHILD.format(seconds=600, then="time.sleep(600)"))
    code = f"from pathlib import Path; from gpufleet import cost; cost.evaluate_program(Path({str(root)!r}), 'dev')"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    namespaces, deadline = set(), time.monotonic() + HANG_GUARD_S
    while len(in_namespaces(namespaces)) < 3:  # init, the program and its grandchild
        namespaces = namespaces_below(process.pid)
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signum)
    process.wait(HANG_GUARD_S)
    wait_until_gone(namespaces)


def namespaces_below(parent):
    """Return the PID namespaces of a process's descendants, without its own."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    family, size = {parent}, 0
    while len(family) != size:
        size = len(family)
        family |= {pid for pid, above in parents.items() if above in family}
    matches = set()
    for pid in family:
        with suppress(OSError):
            matches.add(str(Path(f"/proc/{pid}/ns/pid").readlink()))
    return matches - {str(Path("/proc/self/ns/pid").readlink())}


FLOOD = "import os\n{open_result}while True: os.write({descriptor}, b'x' * 65536)\n"


@pytest.mark.parametrize(
    ("descriptor", "name"), [(1, "its output"), (2, "its output"), (3, "its list of resources")]
)
def test_endless_output_is_cut_off_and_uses_little_memory(write_hostile_program, language, descriptor, name):
    import resource

    open_result = language.open_result if descriptor == 3 else ""
    flood = FLOOD.format(descriptor=descriptor, open_result=open_result)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InputError, match=f"{name} is over"):
        cost.evaluate_program(write_hostile_program(flood), "dev")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024  # KiB


def test_last_lines_of_long_output_are_kept(write_hostile_program):
    root = write_hostile_program(
        "import os\nfor _ in range(400): os.write(1, b'x' * 65536)\nprint('\\nlast words', flush=True)\nos._exit(3)"
    )
    with pytest.raises(InputError, match="ended early: last words"):
        cost.evaluate_program(root, "dev")


@confined
def test_number_of_processes_is_limited(evaluate_expression):
    """Fork until the kernel says no; each fork waits for the end of a pipe, so none uses the processor."""
    bomb = (
        "reading, writing = os.pipe()\n"
        "count = 0\n"
        "try:\n"
        "  while count < 2000:\n"
        "    if os.fork() == 0:\n"
        "      os.close(writing); os.read(reading, 1); os._exit(0)\n"
        "    count += 1\n"
        "except BlockingIOError: pass\n"
        "os.close(writing)\n"
        "for _ in range(count): os.wait()\n"
    )
    if os.getuid() == 0 and tuple(map(int, os.uname().release.split(".")[:2])) < (6, 14):
        pytest.skip("as root only Linux 6.14 bounds a PID namespace")
    assert 100 < int(evaluate_expression("count", bomb)) < 600


@confined
def test_program_cannot_change_the_evaluation_of_the_other_version(project):
    """Both sides run at once; the head looks for the base's folder, processes and result, and finds none."""
    git = ["git", "-C", str(project), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    main = project / "stacks/__main__.py"
    main.write_text("import pulumi\npulumi.ComponentResource('t:m:C', 'base', {})\n")
    subprocess.run([*git, "commit", "-qam", "base"], check=True)
    look = "[p for p in os.listdir('/proc') if p.isdigit()]"
    places = "[n for n in os.listdir('/tmp') if n.startswith('gpufleet-base')]"
    main.write_text("import os\n" + COMPONENT.format(name="'head'", value=f"str(({look}, {places}))"))
    with evaluation.start_git_ref_comparison(project, "poc", "HEAD") as run:
        base, head = run()
    assert [resource.name for resource in base] == ["base"]
    assert head[0].name == "head"
    assert head[0].inputs["value"] == "(['1', '2'], [])"


@confined
def test_forged_result_is_refused_by_type_and_size(write_hostile_program, language):
    forged = f"import os\n{language.open_result}os.write(3, {{content}})\n{language.end}"
    for content, problem in (
        (b"{", "is not JSON"),
        (b"[1]", "should be a valid dictionary"),
        (b'{"resources": [{"urn": 5}]}', "resources.0.urn"),
        (
            b'{"resources": [{"urn": "a", "type": "b", "custom": "yes", "inputs": {}, "outputs": {}}]}',
            "custom",
        ),
        (b"[" * 100_000, "is (not JSON|nested deeper)"),
        (b'{"resources": NaN}', "is not a number"),
    ):
        with pytest.raises(InputError, match=problem):
            cost.evaluate_program(write_hostile_program(forged.format(content=repr(content))), "dev")
    with pytest.raises(InputError, match="contains more than"):
        registration.decode_program_output(b"[" + b"1," * 2_000_001 + b"1]", "it")


@confined
def test_program_cannot_mark_its_resources_as_deleted(write_hostile_program, language):
    record = {
        "urn": "urn:pulumi:dev::p::t:m:C::c",
        "type": "t:m:C",
        "custom": True,
        "inputs": {},
        "outputs": {},
    }
    content = json.dumps({"resources": [record | {"delete": True, "external": True}]}).encode()
    forged = f"import os\n{language.open_result}os.write(3, {content!r})\n{language.end}"
    (resource,) = cost.evaluate_program(write_hostile_program(forged), "dev")
    assert not resource.delete
    assert not resource.external


def test_symlinks_of_a_program_are_not_followed(write_hostile_program, tmp_path):
    (tmp_path / "victim").write_text("kept")
    attack = (
        "import os, shutil\n"
        "for name in ('HOME', 'TMPDIR'):\n"
        "  place = os.environ[name]\n"
        "  shutil.rmtree(place, ignore_errors=True)\n"
        f"  try: os.symlink({str(tmp_path)!r}, place)\n"
        "  except OSError: pass\n"
    )
    cost.evaluate_program(write_hostile_program(attack), "dev")
    assert (tmp_path / "victim").read_text() == "kept"


@pytest.mark.parametrize("code", ["raise RuntimeError(NASTY)", "print(NASTY); import os; os._exit(1)"])
def test_output_of_a_program_is_escaped_for_the_terminal(write_hostile_program, code):
    root = write_hostile_program(f"NASTY = '\\x1b]0;owned\\x07 \\u202e \\x9b2J'\n{code}\n")
    with pytest.raises(GpufleetError) as excinfo:
        cost.evaluate_program(root, "dev")
    assert str(excinfo.value).isprintable()
    assert "owned" in str(excinfo.value)


def test_endless_stack_file_is_not_read_before_confinement(write_hostile_program):
    root = write_hostile_program("")
    (root / "Pulumi.dev.yaml").unlink()
    (root / "Pulumi.dev.yaml").symlink_to("/dev/zero")
    with pytest.raises(GpufleetError):
        cost.evaluate_program(root, "dev", limit_s=30)


def test_git_settings_of_a_bare_repository_are_not_executed(write_hostile_program, tmp_path):
    root = write_hostile_program("")
    subprocess.run(["git", "init", "-q", "--bare", str(root)], check=True)
    with (root / "config").open("a") as settings:
        settings.write(f"[core]\n\tfsmonitor = touch {tmp_path}/owned\n")
    with pytest.raises(InputError, match="not in a git repository"):
        cost.diff_stack_against_git_ref(root, "dev", "HEAD")
    assert not (tmp_path / "owned").exists()


NO_NAMESPACES = (
    'echo 0 >/proc/sys/user/max_user_namespaces; exec setpriv --bounding-set -all --no-new-privs "$@"'
)


@pytest.fixture
def run_without_namespaces(clean_env):
    """Run a command where the kernel allows no namespaces, as on some machines of CI systems."""

    def run(code):
        command = [
            "unshare",
            "--user",
            "--map-root-user",
            "sh",
            "-c",
            NO_NAMESPACES,
            "sh",
            sys.executable,
            "-c",
            code,
        ]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=HANG_GUARD_S, env=clean_env, check=False
        )

    return run


@confined
def test_missing_namespaces_are_reported_and_the_remaining_confinement_applies(
    write_hostile_program, run_without_namespaces, planted_secrets
):
    grandchild = GRANDCHILD.format(seconds=600, then="").replace(
        "if os.fork() == 0:\n        for",
        "if os.fork() == 0:\n        os.write(w, str(os.getpid()).encode())\n        for",
    )
    expression = "str((dict(os.environ), os.read(r, 20)))"
    root = write_hostile_program(f"import os, sys\nr, w = os.pipe()\n{grandchild}", value=expression)
    code = (
        "from pathlib import Path; from gpufleet import cost;"
        f"print(cost.evaluate_program(Path({str(root)!r}), 'dev', may_be_unconfined=True)[0].inputs['value'])"
    )
    result = run_without_namespaces(code)
    assert result.returncode == 0, result.stderr
    assert CANARY not in result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: this machine cannot isolate the Pulumi program from the network")
    grandchild = int(eval(result.stdout)[1])
    assert not Path(f"/proc/{grandchild}").exists()


def test_error_of_the_program_itself_names_pulumi_preview(write_hostile_program):
    with pytest.raises(InputError, match="if `pulumi preview` succeeds"):
        cost.estimate_stack(write_hostile_program("raise ValueError('no')\n"), "dev")
