#!/bin/sh
# Boot one rehearsed host. Started inside the host's network namespace and a mount namespace of its own, so
# that everything mounted here disappears with the processes, however they end.
#   boot-host.sh BASE DISK CGROUP SMALL_MIB FREE_MIB NSPAWN_ARGUMENT...
# BASE is the shared image (escaped for a mount option), DISK the host's folder with root/, work/, merged/ and
# small/. SMALL_MIB 0 keeps the root on disk; otherwise it is a memory disk with that much to spare, filled up to
# FREE_MIB.
set -eu
base=$1 disk=$2 cgroup=$3 small_mib=$4 free_mib=$5
shift 5

# systemd in each host believes that it owns its cgroup, so no two hosts may share one.
for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ -e "$tree/cgroup.procs" ] || continue
    mkdir -p "$tree/$cgroup"
    echo $$ >"$tree/$cgroup/cgroup.procs"
done

cd "$disk"
if [ "$small_mib" -gt 0 ]; then
    used_mib=$(du -sm root | cut -f1)
    mount -t tmpfs -o "size=$((used_mib + small_mib))m,mode=755" small small
    cp -a root small/root
    mkdir small/work
    mkdir -p small/root/var/log
    # The fault itself; where nothing shall stay free, writing stops when no byte is left.
    fill_mib=$((free_mib > 0 ? small_mib - free_mib : small_mib * 2))
    head -c "${fill_mib}M" /dev/zero >small/root/var/log/runaway-job.log 2>/dev/null || true
    upper=small/root work=small/work
else
    upper=root work=work
fi
# Relative paths: the folder's own name may hold characters that mean something to overlayfs.
mount -t overlay rehearsed-host -o "lowerdir=$base,upperdir=$upper,workdir=$work" merged
# nspawn leaves with 133 when the host reboots: by the host's own wish it boots again, files and all.
status=133
while [ "$status" -eq 133 ]; do
    status=0
    systemd-nspawn --quiet --directory="$disk/merged" "$@" || status=$?
done
exit "$status"
