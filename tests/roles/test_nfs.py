"""Test NFS on a booted host. Its kernel has no NFS, so the server is not started and nothing is mounted."""

from __future__ import annotations

PLAYS = ("nfs",)
HOST = "amd02"  # not base01: Debian's packages bring rpcbind, which listens, and base01 must not


def test_exports_and_mounts_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("nfs").assert_idempotent()


def test_exportfs_reads_the_exports(converge_play, lab):
    converge_play("nfs")
    host = lab.host(HOST)
    exported = [line.split("(")[0].split() for line in host.check_output("exportfs -s").splitlines()]
    assert exported == [["/srv/data", "192.0.2.7"], ["/srv/data", "198.18.0.0/15"]]
    assert host.file("/srv/data").mode == 0o750
    assert host.check_output("nfsconf --get nfsd vers3") == "n"


def test_fstab_has_the_mount_and_is_valid(converge_play, lab):
    converge_play("nfs")
    host = lab.host(HOST)
    assert host.file("/etc/fstab").content_string.endswith(
        "198.18.1.1:/srv/data /data nfs4 ro,_netdev,nofail,x-systemd.mount-timeout=30s,x-systemd.automount,"
        "x-gpufleet.nfs 0 0\n"
    )
    assert host.check_output("systemctl show --property=LoadState --value data.automount") == "loaded"


def test_empty_lists_take_back_and_a_silent_server_is_named(converge_play, lab):
    converge_play("nfs")
    run = lab.run(PLAY)
    host = lab.host(HOST)
    assert not host.file("/etc/exports.d/gpufleet.exports").exists
    assert "x-gpufleet.nfs" not in host.file("/etc/fstab").content_string
    assert (
        "/data: the NFS server 127.0.0.1 does not answer on port 9 (Connection refused)"
        in run.failure_text(HOST)
    )


PLAY = """\
- name: NFS again
  hosts: amd02
  gather_facts: false
  tasks:
    - ansible.builtin.import_role: {name: gpufleet.fleet.nfs_server}
    - ansible.builtin.import_role: {name: gpufleet.fleet.nfs_client}
    - ansible.builtin.import_role: {name: gpufleet.fleet.nfs_client}
      vars:
        nfs_client_state: mounted
        nfs_client_mounts: [{mount: /data, server: 127.0.0.1, path: /srv, options: [port=9]}]
"""
