#!/bin/sh
# Debian 12, linux-image-6.1.0-50-amd64 6.1.176-1 with firmware-amd-graphics 20230210-5: the kernel's amdgpu knows Radeons
# whose firmware the same release does not have, and no package says so.
#
# Expected: firmware-amd-graphics has the files that amdgpu of the same release asks for, at least for cards on sale; or
# modinfo and dpkg let one see that they are missing before the card stays dark.
# Seen on 2026-11-28, by the processor of the card:
#   gc_11_0_0 (RX 7900 XTX): asked for 9 files, packaged 7
#   gc_11_0_2 (RX 7600): asked for 8 files, packaged 7
#   gc_11_0_3 (RX 7700 XT, RX 7800 XT): asked for 8 files, packaged 0
#
# Needs a Debian 12 with apt; changes nothing outside a temporary folder. Exits with 0 while this is so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/lists/partial" "$folder/archives/partial" "$folder/kernel"
# The machine's own mirror, with the component that its list may not have.
apt-get indextargets --format "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \$(REPO_URI) bookworm main \
non-free-firmware" "Created-By: Packages" "Codename: bookworm" "Component: main" | head -n 1 > "$folder/sources.list"
# Expanded at each use: these are options of apt.
options="-o Dir::Etc::SourceList=$folder/sources.list -o Dir::Etc::SourceParts=/dev/null
 -o Dir::State::Lists=$folder/lists -o Dir::Cache=$folder -o APT::Sandbox::User=root"
cd "$folder"
# shellcheck disable=SC2086
apt-get $options --quiet=2 update
# shellcheck disable=SC2086
apt-get $options --quiet=2 download linux-image-6.1.0-50-amd64=6.1.176-1 firmware-amd-graphics=20230210-5
dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x -C kernel --wildcards '*/amdgpu.ko'
grep -a -o 'firmware=amdgpu/[a-z0-9_]*\.bin' "$(find kernel -name amdgpu.ko)" | sort -u > asked
dpkg-deb --contents firmware-amd-graphics_*.deb | grep -o 'amdgpu/[a-z0-9_]*\.bin' | sort -u > packaged

count() {
    echo "$1 ($2): asked for $(grep -c "amdgpu/$1_" asked) files, packaged $(grep -c "amdgpu/$1_" packaged || true)"
}
{
    count gc_11_0_0 "RX 7900 XTX"
    count gc_11_0_2 "RX 7600"
    count gc_11_0_3 "RX 7700 XT, RX 7800 XT"
} > seen
cat seen
cat > expected << 'EOF'
gc_11_0_0 (RX 7900 XTX): asked for 9 files, packaged 7
gc_11_0_2 (RX 7600): asked for 8 files, packaged 7
gc_11_0_3 (RX 7700 XT, RX 7800 XT): asked for 8 files, packaged 0
EOF
cmp seen expected
