"""Test Go programs: they are built and run confined, at both git refs.

The programs here need only Go's own library, so that no module is downloaded: they call the monitor over HTTP/2.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpufleet import cost
from gpufleet.cost.inputs.program.evaluation import start_git_ref_comparison
from gpufleet.cost.inputs.program.go_build import _list_module_paths
from gpufleet.errors import InputError

CANARY = "canary-6e0d"
UNSHARE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000 | 0x60020000) != 0)"
CAN_CONFINE = sys.platform == "linux" and not subprocess.call([sys.executable, "-c", UNSHARE])
pytestmark = [
    pytest.mark.skipif(not CAN_CONFINE, reason="this kernel allows no namespaces"),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed"),
]
# Registers one component, whose inputs are texts, as the SDK does: a message of RegisterResource over gRPC.
LIBRARY = """package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func field(number int, content []byte) []byte {
	head := binary.AppendUvarint(nil, uint64(number<<3|2))
	return append(binary.AppendUvarint(head, uint64(len(content))), content...)
}

func register(name string, inputs map[string]string) {
	var object []byte
	for key, text := range inputs {
		value := field(3, []byte(text))
		object = append(object, field(1, append(field(1, []byte(key)), field(2, value)...))...)
	}
	message := append(field(1, []byte("t:m:C")), field(2, []byte(name))...)
	message = append(message, field(5, object)...)
	frame := append([]byte{0}, binary.BigEndian.AppendUint32(nil, uint32(len(message)))...)
	path := strings.TrimPrefix(os.Getenv("PULUMI_MONITOR"), "unix:")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	place := "http://monitor/pulumirpc.ResourceMonitor/RegisterResource"
	request, _ := http.NewRequest("POST", place, bytes.NewReader(append(frame, message...)))
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(request)
	if err != nil {
		panic(err)
	}
	io.ReadAll(response.Body)
}

func setting(key string) string {
	settings := map[string]string{}
	json.Unmarshal([]byte(os.Getenv("PULUMI_CONFIG")), &settings)
	return settings[os.Getenv("PULUMI_PROJECT")+":"+key]
}
"""
PROGRAM = """package main

import "example.org/fleet/size"

func main() { register("c", map[string]string{"size": size.Size, "zone": setting("zone")}) }
"""
HOSTILE = """package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	seen := []string{}
	for _, path := range strings.Split(setting("paths"), ",") {
		if content, err := os.ReadFile(path); err == nil {
			seen = append(seen, path+"="+string(content))
		} else if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			seen = append(seen, path)
		}
	}
	others := []string{}
	places, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, place := range places {
		content, _ := os.ReadFile(place)
		others = append(others, strings.ReplaceAll(string(content), "\\x00", " "))
	}
	_, refused := net.DialTimeout("tcp", setting("address"), time.Second)
	_, unresolved := net.LookupHost("example.org")
	written := os.WriteFile("written", nil, 0600)
	register("c", map[string]string{
		"environment": strings.Join(os.Environ(), " "), "seen": strings.Join(seen, " "),
		"others": strings.Join(others, " "), "processes": strings.Join(places, " "),
		"connected": map[bool]string{true: "yes", false: "no"}[refused == nil || unresolved == nil],
		"written":   map[bool]string{true: "yes", false: "no"}[written == nil],
	})
}
"""


def git(root, *arguments):
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", "-C", str(root), *author, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def go_cache(tmp_path_factory):
    """Make one folder of caches for all tests here: the first build compiles Go's library."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def write_project(tmp_path, monkeypatch, go_cache):
    """Write a Go project into a repository, and commit it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(go_cache))

    def write(main=PROGRAM, settings=None, runtime="go", files=()):
        root = tmp_path / "project"
        (root / "size").mkdir(parents=True, exist_ok=True)
        (root / "Pulumi.yaml").write_text(f"name: fleet\nruntime: {runtime}\n")
        (root / "Pulumi.dev.yaml").write_text(json.dumps({"config": settings or {}}))
        (root / "go.mod").write_text("module example.org/fleet\n\ngo 1.24\n")
        (root / "register.go").write_text(LIBRARY)
        (root / "main.go").write_text(main)
        (root / "size/size.go").write_text('package size\n\nconst Size = "small"\n')
        for name, content in dict(files).items():
            (root / name).write_text(content)
        git(tmp_path, "init", "-q", str(root))
        git(root, "add", "-A")
        git(root, "commit", "-qm", "first")
        return root

    return write


def find_inputs(resources):
    return next(each for each in resources if each.type == "t:m:C").inputs


def test_both_refs_are_built_and_run_with_their_settings(write_project):
    root = write_project(settings={"fleet:zone": "a"})
    (root / "size/size.go").write_text('package size\n\nconst Size = "large"\n')
    (root / "Pulumi.dev.yaml").write_text("config: {'fleet:zone': b}\n")
    with start_git_ref_comparison(root, "dev", "HEAD") as run:
        before, after = map(find_inputs, run())
    assert (before, after) == ({"size": "small", "zone": "a"}, {"size": "large", "zone": "b"})
    assert not (root / "fleet").exists()


def test_hostile_program_gets_no_more_than_a_hostile_python_program(
    write_project, monkeypatch, tmp_path, go_cache
):
    home = tmp_path / "home"
    (home / ".aws").mkdir(parents=True)
    (home / ".aws/credentials").write_text(CANARY)
    for name, value in (("HOME", str(home)), ("AWS_SECRET_ACCESS_KEY", CANARY), ("GOPRIVATE", CANARY)):
        monkeypatch.setenv(name, value)
    root = tmp_path / "project"
    modules = Path(subprocess.check_output(["go", "env", "GOMODCACHE"], text=True).strip())
    paths = [home / ".aws/credentials", home, root / ".git/config", root / "untracked", "/etc/shadow"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        settings = {
            "fleet:address": f"127.0.0.1:{listener.getsockname()[1]}",
            "fleet:paths": ",".join(map(str, [*paths, modules, go_cache / "gpufleet/go-build"])),
        }
        write_project(HOSTILE, settings)
        (root / "untracked").write_text(CANARY)
        inputs = find_inputs(cost.evaluate_program(root, "dev"))
    assert CANARY not in str(inputs)
    assert inputs["seen"] == ""
    assert (inputs["connected"], inputs["written"]) == ("no", "no")
    assert len(inputs["processes"].split()) < 10  # of its own namespace
    assert f"HOME={home}" not in inputs["environment"]


@pytest.mark.parametrize("attack", ["include", "embed", "cgo"])
def test_build_reads_no_file_outside_of_what_the_program_sees(write_project, tmp_path, attack):
    secret = tmp_path / "secret"
    secret.write_text(f"{CANARY}\n")
    files = {
        "include": {
            "size/include_amd64.s": f'#include "{secret}"\n',
            "size/include_arm64.s": f'#include "{secret}"\n',
        },
        "embed": {
            "size/embed.go": 'package size\n\nimport _ "embed"\n\n//go:embed secret\nvar Secret string\n'
        },
        "cgo": {"size/cgo.go": f'package size\n\n// #include "{secret}"\nimport "C"\n\nvar x = C.int(1)\n'},
    }
    root = write_project(files=files[attack])
    if attack == "embed":
        (root / "size/secret").symlink_to(secret)
        git(root, "add", "-A")
        git(root, "commit", "-qm", "link")
    if attack == "cgo":  # a file with cgo is left out
        assert find_inputs(cost.evaluate_program(root, "dev"))["size"] == "small"
        return
    with pytest.raises(InputError, match="does not build") as error:
        cost.evaluate_program(root, "dev")
    assert CANARY not in str(error.value)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"main.go": "package main\n\nfunc main() { nothing() }\n"}, "does not build: .*undefined: nothing"),
        ({"main.go": 'package main\n\nimport _ "example.com/m"\n\nfunc main() {}\n'}, "go mod download"),
        ({"go.mod": "module example.org/fleet\n\ngo 99.1\n"}, "does not build: .*99.1"),
        ({"main.go": "package main\n\nfunc main() { panic(1) }\n"}, "ended early: .*(exit code 2|main.go:3)"),
    ],
)
def test_mistakes_are_one_line(write_project, files, message):
    root = write_project(files=files)
    with pytest.raises(InputError, match=message) as error:
        cost.evaluate_program(root, "dev")
    assert "\n" not in str(error.value)


def test_named_binary_runs_as_it_is_unless_commits_are_compared(write_project):
    root = write_project(runtime="{name: go, options: {binary: ./bin/fleet}}", files={".gitignore": "bin\n"})
    (root / "size/size.go").write_text('package size\n\nconst Size = "built"\n')
    subprocess.run(["go", "build", "-o", "bin/fleet", "."], cwd=root, check=True, env=dict(os.environ))
    git(root, "checkout", "-q", "size")
    assert find_inputs(cost.evaluate_program(root, "dev"))["size"] == "built"
    with start_git_ref_comparison(root, "dev", "HEAD") as run:
        assert [find_inputs(side)["size"] for side in run()] == ["small", "small"]


def test_build_sees_only_the_modules_that_its_sums_name(tmp_path):
    cache = tmp_path / "mod"
    for name in ("example.com/a@v1.0.0", "example.com/!big@v2.0.0", "example.com/other@v1.0.0"):
        (cache / name).mkdir(parents=True)
    sums = tmp_path / "go.sum"
    sums.write_text(
        "example.com/a v1.0.0 h1:x=\nexample.com/Big v2.0.0 h1:x=\nexample.com/a/../other v1.0.0 h1:x=\n"
    )
    found = {str(path.relative_to(cache)) for path in _list_module_paths(cache, [sums])}
    assert found == {"example.com/a@v1.0.0", "example.com/!big@v2.0.0"}
