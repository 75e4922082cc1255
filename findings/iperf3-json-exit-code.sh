#!/bin/sh
# iperf3 3.12 of Debian 12: with -J the client ends with 0 whatever happened; without it, with 1.
#
# Expected: a client that could not connect, or whose server ended in the middle, does not end with 0.
# Seen on 2026-11-28:
#   no server: exit code 0 with -J, 1 without
#   server stopped in the middle: exit code 0, a rate of 0 bit/s received, and the key "error" at the end of the report
#
# Exits with 0 while this is so. Needs Debian 12; the packages are not installed. Traffic stays on 127.0.0.1.
set -eu

version=3.12-1+deb12u2
port=${PORT:-53917}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download "iperf3=$version" "libiperf0=$version" > /dev/null
for package in ./*.deb; do dpkg-deb -x "$package" root; done
LD_LIBRARY_PATH=$(dirname "$(find root -name 'libiperf.so.0' | head -n 1)")
export LD_LIBRARY_PATH
iperf=root/usr/bin/iperf3

json=0
"$iperf" -c 127.0.0.1 -p "$port" -t 1 -J > refused || json=$?
text=0
"$iperf" -c 127.0.0.1 -p "$port" -t 1 > plain 2>&1 || text=$?
grep -q '"error":' refused

"$iperf" -s -B 127.0.0.1 -p "$port" > server 2>&1 &
server=$!
sleep 1
(sleep 1.5 && kill -TERM "$server") &
stopped=0
"$iperf" -c 127.0.0.1 -p "$port" -t 4 -J > stopped || stopped=$?
rate=$(python3 -c 'import json; print(json.load(open("stopped"))["end"]["sum_received"]["bits_per_second"])')
error=$(python3 -c 'import json; print(json.load(open("stopped"))["error"])')

echo "no server: exit code $json with -J, $text without"
echo "server stopped in the middle: exit code $stopped, $rate bit/s received, error: $error"
[ "$json $text $stopped $rate" = "0 1 0 0" ]
