"""dnf on a host like Rocky Linux 9: real dnf, rpm and signatures, and packages with the vendors' names and streams."""

from __future__ import annotations

import dataclasses
import importlib
import platform
import sys
from pathlib import Path

import pytest

from gpufleet.drivers.driver_plan import HostFacts, PciDevice, RequestedSoftware
from gpufleet.drivers.planner import plan_drivers

NVIDIA = {"name": "nvidia-cuda", "suite": "", "components": [], "pin": None}
STREAM = "nvidia-driver:580-open"
DRIVER_SET = (
    "kmod-nvidia-open-dkms", "nvidia-driver", "nvidia-driver-cuda", "nvidia-driver-cuda-libs", "nvidia-driver-libs",
    "nvidia-kmod-common", "nvidia-open", "nvidia-persistenced",
)  # fmt: skip
KERNEL = f"5.14.0-570.12.1.el9_6.{platform.machine()}"
REPOSITORIES, RESOURCES = "gpufleet.fleet.repositories", "gpufleet.fleet.resources"


@pytest.fixture(scope="module")
def rpm_archive(tmp_path_factory, signing_home):
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        module = importlib.import_module("rpm_archive")
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("rpms")
    archive = module.RpmArchive(folder, signing_home)
    package = module.RpmPackage
    (folder / "epel.repo").write_text(archive.repository_text("epel", "EPEL-9"))
    (folder / "epel.key").write_text(archive.keys["epel"][1])
    plugins = Path(module.PLUGINS)
    (folder / "versionlock.list").write_text("")
    for name in ("versionlock.py", "config_manager.py"):
        (folder / name).write_bytes((plugins / name).read_bytes())
    distribution = [
        package("kernel-devel", "5.14.0", release=KERNEL.split("-")[1].rpartition(".")[0], is_native=True),
        package("kernel-headers", "5.14.0"),
        package("bash-completion", "2.11"),
        package(
            "epel-release", "9", files={
                "/etc/yum.repos.d/epel.repo": f"{folder}/epel.repo",
                "/etc/pki/rpm-gpg/RPM-GPG-KEY-EPEL-9": f"{folder}/epel.key",
            },
        ),
        package(
            "python3-dnf-plugin-versionlock", "4.3.0",
            files={f"{plugins}/versionlock.py": f"{folder}/versionlock.py",
                   "/etc/dnf/plugins/versionlock.conf": "/etc/dnf/plugins/versionlock.conf",
                   "/etc/dnf/plugins/versionlock.list": f"{folder}/versionlock.list"},
        ),
        package(
            "dnf-plugins-core", "4.3.0", provides=("dnf-command(config-manager)",),
            files={f"{plugins}/config_manager.py": f"{folder}/config_manager.py"},
        ),
    ]  # fmt: skip
    archive.add_repository("baseos", distribution, "distribution")
    archive.add_repository("crb", [package("ocl-icd", "2.2.13")], "distribution")
    archive.add_repository("epel", [package("dkms", "3.2.0")], "epel")
    streams = {
        "570-open": module.nvidia_packages("570.172.08"),
        "580-open": [*module.nvidia_packages("580.95.05"), *module.nvidia_packages("580.126.20")],
        "open-dkms": module.nvidia_packages("595.45.04"),
    }
    every = [package for packages in streams.values() for package in packages]
    archive.add_repository("cuda", every, "nvidia", module.modules_text(streams))
    return archive


@pytest.fixture
def host(make_host, rpm_archive):
    """Give a host that only dnf manages, with the distribution's repositories and keys."""
    host = make_host(rpm_archive.folder)
    gone = (
        "/var/lib/dpkg /etc/apt /usr/bin/apt* /usr/bin/dpkg* /etc/yum.repos.d /etc/dnf/plugins/versionlock.*"
    )
    plugins = "/usr/lib/python3/dist-packages/dnf-plugins"
    host.run("sh", "-c", f"rm -rf {gone} {plugins}/* /var/lib/rpm/*; mkdir -p /etc/modprobe.d")
    host.write("/etc/os-release", 'ID="rocky"\nVERSION_ID="9.6"\nPLATFORM_ID="platform:el9"\n')
    host.write("/etc/rpm/macros.database", "%_dbpath /var/lib/rpm\n")
    host.write("/etc/dnf/dnf.conf", "[main]\ngpgcheck=1\nbest=True\nskip_if_unavailable=False\nplugins=1\n")
    host.write("/etc/pki/rpm-gpg/RPM-GPG-KEY-distribution", rpm_archive.keys["distribution"][1])
    host.write("/etc/yum.repos.d/baseos.repo", rpm_archive.repository_text("baseos", "distribution"))
    host.write("/etc/yum.repos.d/crb.repo", rpm_archive.repository_text("crb", "distribution", enabled=False))
    return host


def add_nvidia(host, rpm_archive, stream=STREAM, **more):
    """Add NVIDIA's repository as the role does; the key comes from a folder."""
    fingerprint, key = rpm_archive.keys["nvidia"]
    folder = rpm_archive.folder / "keys"
    folder.mkdir(exist_ok=True)
    (folder / "nvidia.asc").write_text(key)
    repository = NVIDIA | {
        "uri": f"file://{rpm_archive.folder}/cuda",
        "key": {"url": "https://localhost:1/", "fingerprints": [fingerprint]},
    }
    arguments = {
        "repositories": [repository],
        "prerequisites": ["epel", "crb", "versionlock"],
        "streams": [stream],
        "key_folder": str(folder),
    }
    return host.ansible(REPOSITORIES, arguments | more)


def install(host, *specs, **more):
    return host.ansible(RESOURCES, {"packages": {"present": list(specs), "install_recommends": False} | more})


def locks_of(host):
    lines = host.read("/etc/dnf/plugins/versionlock.list").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def version_of(host, name):
    return host.run("rpm", "-q", "--qf", "%{VERSION}", name, check=False).stdout


@pytest.mark.slow
def test_stream_prerequisites_packages_and_lock_as_nvidia_documents_them(host, rpm_archive):
    result = add_nvidia(host, rpm_archive)
    assert result["changed"], result
    assert not result["failed"], result["msg"]
    assert "stream=580-open\n" in host.read("/etc/dnf/modules.d/nvidia-driver.module")
    enabled = host.run("dnf", "-q", "repolist", "--enabled").stdout
    assert {line.split()[0] for line in enabled.splitlines()[1:]} == {"baseos", "crb", "epel", "nvidia-cuda"}
    # Nothing of the driver is installed before the packages are asked for.
    assert "not installed" in version_of(host, "nvidia-open")

    result = install(host, "kernel-devel", "nvidia-open=580.95.05-1.el9", held=["nvidia-open"])
    assert "kmod-nvidia-open-dkms" in result["changed_packages"], result
    assert version_of(host, "kmod-nvidia-open-dkms") == "580.95.05"
    assert version_of(host, "dkms") == "3.2.0"
    assert locks_of(host) >= {"nvidia-open-3:580.95.05-1.el9.*", "kmod-nvidia-open-dkms-3:580.95.05-1.el9.*"}

    assert not add_nvidia(host, rpm_archive)["changed"]
    assert not install(host, "nvidia-open=580.95.05-1.el9", held=["nvidia-open"])["changed"]

    # The lock holds against everyone but the task that set it.
    host.run("dnf", "-y", "-q", "upgrade")
    assert version_of(host, "nvidia-open") == "580.95.05"
    result = install(host, "nvidia-open=580.126.20-1.el9", held=["nvidia-open"])
    assert result["changed"], result
    assert version_of(host, "kmod-nvidia-open-dkms") == "580.126.20"
    assert {line for line in locks_of(host) if "580" in line} == {
        f"{name}-3:580.126.20-1.el9.*" for name in DRIVER_SET
    }

    # Another branch: the module is reset, and the driver becomes older only because the task allows it.
    assert add_nvidia(host, rpm_archive, "nvidia-driver:570-open")["changed"]
    assert "stream=570-open\n" in host.read("/etc/dnf/modules.d/nvidia-driver.module")
    result = install(host, "nvidia-open=570.172.08-1.el9", held=["nvidia-open"], allow_downgrade=True)
    assert version_of(host, "nvidia-driver-cuda-libs") == "570.172.08", result
    result = host.ansible(RESOURCES, {"packages": {"absent": ["nvidia-open"], "unheld": ["nvidia-open"]}})
    assert result["changed_packages"] == ["nvidia-open"], result
    assert locks_of(host) == set()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="RHEL's packages are planned for x86-64")
def test_role_installs_the_planned_driver_of_a_rocky_host_and_a_second_run_changes_nothing(host, rpm_archive):
    facts = HostFacts(
        pci=(PciDevice("0000:01:00.0", "10de", "1eb8", "030200"),),
        os_id="rocky", os_version="9.6", kernel=KERNEL, arch="x86_64", secure_boot=False,
        candidates={
            "nvidia-open": ("3:580.126.20-1.el9", "3:580.95.05-1.el9"),
            f"kernel-devel-{KERNEL}": ("5.14.0-570.12.1.el9_6",),
            "kernel-devel": ("5.14.0-570.12.1.el9_6",), "kernel-headers": ("5.14.0-1.el9",),
        },
    )  # fmt: skip
    plan = dataclasses.asdict(plan_drivers(facts, RequestedSoftware(branch="580")))
    assert plan["streams"] == (STREAM,)
    fingerprint, key = rpm_archive.keys["nvidia"]
    (rpm_archive.folder / "keys").mkdir(exist_ok=True)
    (rpm_archive.folder / "keys/nvidia").write_text(key)
    for repository in plan["repositories"]:
        repository["uri"] = f"file://{rpm_archive.folder}/cuda"
        repository["key"]["fingerprints"] = [fingerprint]
    host.write("/usr/bin/dracut", '#!/bin/sh\necho "$@" >> /var/log/dracut\n')
    host.run("chmod", "0755", "/usr/bin/dracut")
    variables = {"nvidia_driver_plan": plan, "gpufleet_key_folder": str(rpm_archive.folder / "keys")}
    roles = ["gpufleet.fleet.nvidia_driver"]
    play = {"hosts": "all", "gather_facts": False, "vars": variables, "roles": roles}
    first = host.play(play)
    assert first.returncode == 0, first.stdout
    assert version_of(host, "kmod-nvidia-open-dkms") == "580.126.20"
    assert "nvidia-open-3:580.126.20-1.el9.*" in locks_of(host)
    assert not host.has("/usr/share/keyrings/nvidia-cuda.asc")
    assert not host.has("/etc/apt/keyrings")
    second = host.play(play)
    assert "changed=0" in second.stdout, second.stdout


def test_package_signed_by_another_key_is_refused(host, rpm_archive):
    """The repository names the vendor's key; a package in it is signed by someone else."""
    fingerprint, key = rpm_archive.keys["nvidia"]
    host.write("/tmp/nvidia.asc", key)
    evil = NVIDIA | {
        "name": "resigned",
        "uri": f"file://{rpm_archive.folder}/baseos",
        "key": {"url": "", "fingerprints": [fingerprint], "content": key},
    }
    host.run("rm", "-r", "/etc/yum.repos.d/baseos.repo")
    host.ansible(REPOSITORIES, {"repositories": [evil]})
    result = install(host, "bash-completion")
    assert "cannot install bash-completion" in result["msg"]
    assert "bash-completion" in result["msg"]
    assert "key" in result["msg"].lower()
    assert "not installed" in version_of(host, "bash-completion")
    # rpm itself: the signature is not of a key that the host trusts.
    package = f"{rpm_archive.folder}/baseos/bash-completion-2.11.rpm"
    assert "NOT OK" in host.run("rpm", "--checksig", package, check=False).stdout


def test_wrong_key_and_missing_repositories_end_in_one_line(host, rpm_archive):
    result = add_nvidia(host, rpm_archive, repositories=[NVIDIA | {
        "uri": "file:///none", "key": {"url": "https://localhost:1/x", "fingerprints": ["AB" * 20]},
    }])  # fmt: skip
    assert "has the signing key ABAB" in result["msg"]
    assert not host.has("/etc/yum.repos.d/nvidia-cuda.repo")
    host.run("rm", "/etc/yum.repos.d/crb.repo")
    result = add_nvidia(host, rpm_archive)
    assert "rocky 9.6 has no CodeReady Builder repository" in result["msg"]
    assert "cannot install no-such-package" in install(host, "no-such-package")["msg"]
