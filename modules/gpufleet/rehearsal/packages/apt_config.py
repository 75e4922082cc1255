"""The apt and dpkg configuration of a rehearsed host."""

from __future__ import annotations

from gpufleet.rehearsal.rack import apt_sources

PORT = 3180
FAKE_REPOSITORY = "fake"

DEBIAN_SOURCES_TEMPLATE = """\
# Rehearsal: Debian's archive through the controller, the only machine that this host can reach.
Types: deb
URIs: http://{gateway}:{port}/{name}
Suites: {suites}
Components: {components}
"""
FAKE_SOURCES_TEMPLATE = """\
# FAKE packages, built on the controller from gpufleet's own data: no vendor's software is in them.
# Not signed: the key would be made on the same machine and prove nothing.
Types: deb
URIs: http://{gateway}:{port}/{name}/
Suites: ./
Trusted: yes
"""
APT_CONF = """\
// Rehearsal: a first fetch waits until the controller has the complete file.
Acquire::http::Timeout "180";
Acquire::http::Proxy "DIRECT";
Acquire::Languages "none";
// The cached archive may be weeks old if the controller is offline.
Acquire::Check-Valid-Until "false";
"""
DPKG_CONF = "# Rehearsal: this disk is temporary, so dpkg need not wait for it.\nforce-unsafe-io\n"


def build_apt_config_files(gateway: str, suite: str) -> dict[str, str]:
    """Return path -> text of the files that let a host's apt use the rehearsal's packages."""
    blocks = [
        DEBIAN_SOURCES_TEMPLATE.format(
            gateway=gateway,
            port=PORT,
            name=archive.name,
            suites=" ".join(archive.suites),
            components=" ".join(archive.components),
        )
        for archive in apt_sources.list_suite_archives(suite, apt_sources.read_suite_apt_sources(suite))
    ]
    return {
        "etc/apt/sources.list": "# Rehearsal: see sources.list.d/rehearsal.sources\n",
        "etc/apt/sources.list.d/rehearsal.sources": "\n".join(blocks),
        "etc/apt/sources.list.d/rehearsal-fake.sources": FAKE_SOURCES_TEMPLATE.format(
            gateway=gateway, port=PORT, name=FAKE_REPOSITORY
        ),
        "etc/apt/apt.conf.d/90rehearsal": APT_CONF,
        "etc/dpkg/dpkg.cfg.d/rehearsal": DPKG_CONF,
    }
