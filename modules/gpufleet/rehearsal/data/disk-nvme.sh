#!/bin/sh
# FAKE nvme: its drive is the file /etc/gpufleet-rehearsal/disks/nvme0n1; format really zeroes that file.
# /etc/gpufleet-rehearsal/disks/slow holds seconds that a format then takes (for a wipe that is interrupted).
folder=/etc/gpufleet-rehearsal/disks
drive=$folder/nvme0n1
case "$1 $2" in
    'id-ctrl /dev/nvme0' | 'id-ctrl /dev/nvme0n1') exec cat "$folder/id-ctrl.json" ;;
    'format /dev/nvme0n1')
        if [ -e "$folder/slow" ]; then sleep "$(cat "$folder/slow")"; fi
        if [ -e "$folder/broken" ]; then echo 'NVMe status: Internal Error (0x6) (FAKE)' >&2; exit 1; fi
        size=$(stat -c %s "$drive")
        : >"$drive" && truncate -s "$size" "$drive" || exit 1
        echo 'Success formatting namespace:1 (FAKE)'
        ;;
    *) echo "fake nvme: $* is not answered" >&2; exit 2 ;;
esac
