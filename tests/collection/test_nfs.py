"""NFS: exports and mounts that are refused, lines of fstab, and mounts that fail."""

from __future__ import annotations

import socket
import subprocess

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter.nfs_server import export_line, nfs_server_plan
from ansible_collections.gpufleet.fleet.plugins.module_utils import nfs
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from ansible_collections.gpufleet.fleet.plugins.modules import nfs_mounts

OTHER = "# static file system information\nUUID=1 / ext4 defaults 0 1\n"
NETWORK = {"network": "10.20.1.0/24"}
ROOTED = {**NETWORK, "options": ["rw", "no_root_squash"]}


def plan(*exports, **options):
    system = {"nfs_server_packages": ["nfs-kernel-server"]}
    return nfs_server_plan(list(exports), system=system, serve_version_3=False, is_started=True, **options)


@pytest.mark.parametrize(
    ("export", "message"),
    [
        ({"path": "srv", "clients": [NETWORK]}, r"nfs_server_exports\[0\] srv: must be an absolute path"),
        ({"path": "/srv/../etc", "clients": [NETWORK]}, "must be an absolute path without '..'"),
        ({"path": "/srv/my data", "clients": [NETWORK]}, "spaces or special characters"),
        ({"path": "/srv/", "clients": [NETWORK]}, "must be an absolute path"),
        ({"path": "/srv", "clients": []}, "has no clients"),
        (
            {"path": "/srv", "clients": [{"network": "*"}]},
            "'\\*' does not appear to be an IPv4 or IPv6 network",
        ),
        (
            {"path": "/srv", "clients": [{"network": "10.0.0.1/8"}]},
            "10.0.0.1/8 has host bits set; give an address",
        ),
        ({"path": "/srv", "clients": [{"network": "0.0.0.0/0"}]}, "is every address"),
        ({"path": "/srv", "clients": [{"network": "::/0"}]}, "is every address"),
        ({"path": "/srv", "clients": [{**NETWORK, "options": ["rw)"]}]}, r"'rw\)' is not an option"),
        (
            {"path": "/srv", "clients": [{**NETWORK, "options": ["anonuid=x"]}]},
            "'anonuid=x' is not an option",
        ),
        ({"path": "/srv", "clients": [ROOTED]}, "set allow_root to permit it"),
    ],
)
def test_export_that_is_refused_is_one_line(export, message):
    with pytest.raises(AnsibleFilterError, match=message):
        plan(export)


def test_folder_is_exported_once():
    with pytest.raises(AnsibleFilterError, match="is exported twice"):
        plan({"path": "/srv", "clients": [NETWORK]}, {"path": "/srv", "clients": [NETWORK]})


def test_line_of_exports_with_all_clients():
    options = ["rw", "sec=krb5i:krb5p", "fsid=0", "subtree_check"]
    clients = [NETWORK, {"network": "fd00::1", "options": options}]
    assert export_line({"path": "/srv/data", "clients": clients}) == (
        "/srv/data 10.20.1.0/24(no_subtree_check) fd00::1(rw,sec=krb5i:krb5p,fsid=0,subtree_check)"
    )


def mount(point="/data", **values):
    return {"mount": point, "server": "nas", "path": "/srv", "options": [], "automount": True, **values}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"point": "data"}, "data: the mount point must be an absolute path"),
        ({"point": "/"}, "the mount point must be an absolute path"),
        ({"point": "/data/../etc"}, "without '..'"),
        ({"point": "/my data"}, "spaces"),
        ({"point": "/etc"}, "/etc: is a folder of the system; nothing was changed"),
        ({"path": "srv"}, "the server's path srv must be"),
        ({"server": "nas example"}, "the server 'nas example' is not a host name or address"),
        ({"server": "-oro"}, "is not a host name"),
        ({"options": ["ro,suid"]}, "'ro,suid' is not NAME or NAME=VALUE"),
        ({"options": ["ro 0 0\n/dev/sda"]}, "is not NAME or NAME=VALUE"),
    ],
)
def test_mount_that_is_refused_is_one_line(values, message):
    with pytest.raises(HostError, match=message):
        nfs.check_mounts([mount(**values)])


def test_two_mounts_at_one_place_are_refused():
    with pytest.raises(HostError, match="is the mount point of two mounts"):
        nfs.check_mounts([mount(), mount(server="other")])


def test_line_of_fstab_is_bounded_and_marked():
    tail = "_netdev,nofail,x-systemd.mount-timeout=30s,x-systemd.automount,x-gpufleet.nfs 0 0"
    assert nfs.fstab_line(mount()) == f"nas:/srv /data nfs4 {tail}"
    line = nfs.fstab_line(
        mount(server="fd00::1", path="/", options=["vers=3", "port=20490"], automount=False)
    )
    assert line.startswith("[fd00::1]:/ /data nfs vers=3,port=20490,_netdev,nofail,")
    assert "automount" not in line
    assert nfs.mount_port(mount(options=["port=20490"])) == 20490


def test_findmnt_accepts_the_lines(tmp_path):
    fstab = tmp_path / "fstab"
    fstab.write_text(nfs.edit_fstab("", [mount(str(tmp_path), server="127.0.0.1")]))
    command = ["findmnt", "--verify", "--tab-file", str(fstab)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (shown.returncode, "error" in shown.stderr) == (0, False), shown.stderr


def test_only_own_lines_are_removed():
    text = nfs.edit_fstab(OTHER, [mount(), mount("/home")])
    assert text.startswith(OTHER)
    assert nfs.edit_fstab(text, [mount(), mount("/home")]) == text
    assert nfs.list_replaced_mount_points(text, [mount(), mount("/home", options=["ro"])]) == ["/home"]
    assert nfs.edit_fstab(text, []) == OTHER


def test_mount_point_of_another_line_is_refused():
    with pytest.raises(HostError, match=r"/etc/fstab already mounts b:/c at /data; remove that line first"):
        nfs.edit_fstab("b:/c /data nfs4 ro 0 0\n", [mount()])


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Give a host whose programs mount and unmount; a program named in ``failing`` fails."""
    state = {"fstab": tmp_path / "fstab", "active": tmp_path / "mounts", "commands": [], "failing": {}}
    state["fstab"].write_text(OTHER)
    state["active"].write_text("/dev/sda1 / ext4 rw 0 0\n")

    def run(argv, **_):
        state["commands"].append(" ".join(argv))
        if argv[0] == "systemd-escape":
            return 0, "data.automount\n", ""
        return state["failing"].get(argv[0], (0, "", ""))

    monkeypatch.setattr(nfs_mounts, "FSTAB", state["fstab"])
    monkeypatch.setattr(nfs_mounts, "MOUNTS", state["active"])
    monkeypatch.setattr(nfs_mounts, "write_fstab", state["fstab"].write_text)
    monkeypatch.setattr(nfs_mounts, "require_kernel_module", lambda *_: None)
    monkeypatch.setattr(nfs_mounts.tools, "run_program", run)
    return state


@pytest.fixture
def server():
    """Give the port of a server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def local_mount(tmp_path, port, **values):
    return mount(str(tmp_path / "data"), server="127.0.0.1", options=[f"port={port}"], **values)


def apply(*mounts, state="mounted", check_mode=False):
    return nfs_mounts.apply_mounts(list(mounts), state, 2, check_mode=check_mode)


def test_new_mount_is_written_and_used_once(host, tmp_path, server):
    requested = local_mount(tmp_path, server)
    assert apply(requested, check_mode=True)["changed"]
    assert (host["fstab"].read_text(), host["commands"]) == (OTHER, [])
    assert apply(requested)["mounted"] == [requested["mount"]]
    assert host["fstab"].read_text() == OTHER + nfs.fstab_line(requested) + "\n"
    assert host["commands"][1:] == ["systemctl start data.automount", f"ls -d {requested['mount']}/."]
    host["active"].write_text(f"systemd-1 {requested['mount']} autofs rw 0 0\n")
    assert not apply(requested)["changed"]


def test_without_automount_the_folder_is_mounted(host, tmp_path, server):
    requested = local_mount(tmp_path, server, automount=False)
    apply(requested)
    assert host["commands"] == [f"mount {requested['mount']}"]


def test_failed_mount_restores_fstab(host, tmp_path, server):
    host["failing"]["mount"] = (32, "", "mount.nfs4: access denied by server while mounting 127.0.0.1:/srv")
    with pytest.raises(HostError, match=r"/data: mount\.nfs4: access denied by server while mounting"):
        apply(local_mount(tmp_path, server, automount=False))
    assert host["fstab"].read_text() == OTHER


def test_server_that_does_not_answer_changes_nothing(host, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    message = (
        f"the NFS server 127.0.0.1 does not answer on port {port} .*Connection refused.*nothing was changed"
    )
    for check_mode in (True, False):
        with pytest.raises(HostError, match=message):
            apply(local_mount(tmp_path, port), check_mode=check_mode)
    assert (host["fstab"].read_text(), host["commands"]) == (OTHER, [])


def test_state_present_neither_connects_nor_mounts(host):
    assert apply(mount(), state="present")["mounted"] == []
    assert nfs.fstab_line(mount()) in host["fstab"].read_text()
    assert host["commands"] == []


def test_place_of_another_file_system_is_refused(host):
    host["active"].write_text("/dev/sdb1 /data ext4 rw 0 0\n")
    with pytest.raises(HostError, match="/data: another file system is mounted there; nothing was changed"):
        apply(mount())
    assert host["fstab"].read_text() == OTHER


def test_mount_that_is_no_longer_listed_is_unmounted(host):
    host["fstab"].write_text(OTHER + nfs.fstab_line(mount()) + "\n")
    host["active"].write_text("systemd-1 /data autofs rw 0 0\nnas:/srv /data nfs4 rw 0 0\n")
    assert apply()["unmounted"] == ["/data"]
    assert host["commands"] == ["umount /data"], "the fake leaves the mount in /proc/mounts"
    assert host["fstab"].read_text() == OTHER


def test_busy_mount_stays_with_its_line(host):
    text = OTHER + nfs.fstab_line(mount()) + "\n"
    host["fstab"].write_text(text)
    host["active"].write_text("nas:/srv /data nfs4 rw 0 0\n")
    host["failing"]["umount"] = (32, "", "umount.nfs4: /data: device is busy")
    with pytest.raises(HostError, match=r"/data: umount\.nfs4: /data: device is busy"):
        apply()
    assert host["fstab"].read_text() == text


def test_automount_without_a_mount_is_stopped(host):
    host["fstab"].write_text(nfs.fstab_line(mount()) + "\n")
    host["active"].write_text("systemd-1 /data autofs rw 0 0\n")
    apply()
    assert host["commands"][-1] == "systemctl stop data.automount"
