"""What apt on a rehearsed host is told: where packages are, and how to treat a disk that is thrown away."""

from __future__ import annotations

from gpufleet.rehearsal.rack import apt

PORT = 3180
STAND_INS = "stand-in"

SOURCES = """\
# Rehearsal: Debian's archive through the controller, this host's only neighbour.
Types: deb
URIs: http://{gateway}:{port}/{name}
Suites: {suites}
Components: {components}
"""
STAND_IN_SOURCE = """\
# STAND-IN packages, made on the controller from gpufleet's own data: no vendor's software is in them.
# Not signed: the key would be made on the same machine in the same minute and prove nothing.
Types: deb
URIs: http://{gateway}:{port}/{name}/
Suites: ./
Trusted: yes
"""
APT = """\
// Rehearsal: a first fetch waits until the controller has the file whole.
Acquire::http::Timeout "180";
Acquire::http::Proxy "DIRECT";
Acquire::Languages "none";
// What is kept of the archive may be weeks old where the controller is offline.
Acquire::Check-Valid-Until "false";
"""
DPKG = "# Rehearsal: this disk is thrown away, so dpkg need not wait for it.\nforce-unsafe-io\n"


def host_files(gateway: str, suite: str) -> dict[str, str]:
    """Return path -> text of the files that let a host's apt use the rehearsal's packages."""
    blocks = [
        SOURCES.format(
            gateway=gateway,
            port=PORT,
            name=archive.name,
            suites=" ".join(archive.suites),
            components=" ".join(archive.components),
        )
        for archive in apt.archives(suite, apt.system_sources())
    ]
    return {
        "etc/apt/sources.list": "# Rehearsal: see sources.list.d/rehearsal.sources\n",
        "etc/apt/sources.list.d/rehearsal.sources": "\n".join(blocks),
        "etc/apt/sources.list.d/rehearsal-stand-in.sources": STAND_IN_SOURCE.format(
            gateway=gateway, port=PORT, name=STAND_INS
        ),
        "etc/apt/apt.conf.d/90rehearsal": APT,
        "etc/dpkg/dpkg.cfg.d/rehearsal": DPKG,
    }
