#!/bin/sh
# FAKE blkdiscard: really zeroes the file /etc/gpufleet-rehearsal/disks/nvme0n1, the rehearsed host's drive.
for last; do :; done
[ "$last" = /dev/nvme0n1 ] || { echo "fake blkdiscard: $last is not its drive" >&2; exit 1; }
drive=/etc/gpufleet-rehearsal/disks/nvme0n1
size=$(stat -c %s "$drive")
: >"$drive" && truncate -s "$size" "$drive"
