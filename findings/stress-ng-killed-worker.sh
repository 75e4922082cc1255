#!/bin/sh
# stress-ng 0.15.06 of Debian 12: its exit code does not tell a wrong result from a worker that somebody killed.
#
# Expected: 2 ("a stressor failed") for results that verification found wrong; another code, or at least not 0, for a run
# whose workers were killed or that was stopped early.
# Seen on 2026-11-28:
#   worker of --cpu killed by SIGKILL: exit code 2, "corrupted bogo-ops counter"
#   worker of --vm killed by SIGKILL: exit code 0, "successful run completed"
#   whole run stopped by SIGTERM after one of eight seconds: exit code 0, "successful run completed"
#
# Exits with 0 while this is so. Needs Debian 12 with the libraries of stress-ng; the package itself is not installed.
set -eu

version=0.15.06-2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download "stress-ng=$version" > /dev/null
dpkg-deb -x stress-ng_*.deb root
stress=$folder/root/usr/bin/stress-ng

# Start a run in the background, wait until it works, and send a signal to the process that a function finds.
run() { # signal, finder, arguments of stress-ng
  signal=$1 finder=$2
  shift 2
  "$stress" "$@" --verify --metrics-brief --timeout 8s > output 2>&1 &
  pid=$!
  sleep 1.2
  kill "-$signal" "$("$finder" "$pid")"
  code=0
  wait "$pid" || code=$?
}
child() { tr ' ' '\n' < "/proc/$1/task/$1/children" | head -n 1; }
grandchild() { child "$(child "$1")"; }
itself() { echo "$1"; }

run KILL child --cpu 1
cpu=$code
grep -q "corrupted bogo-ops counter" output
run KILL grandchild --vm 1 --vm-bytes 16m
vm=$code
grep -q "successful run completed" output
run TERM itself --cpu 1
stopped=$code
grep -q "successful run completed" output

echo "worker of --cpu killed by SIGKILL: exit code $cpu"
echo "worker of --vm killed by SIGKILL: exit code $vm"
echo "whole run stopped by SIGTERM after one of eight seconds: exit code $stopped"
[ "$cpu $vm $stopped" = "2 0 0" ]
