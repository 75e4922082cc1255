#!/bin/sh
# fio 3.33 of Debian 12: a test on a folder that does not exist is no error: fio creates the folder.
#
# Expected: a path below a mount point that is not mounted, or a misspelt one, is refused, so that no other disk is
# tested in its place.
# Seen on 2026-11-28: exit code 0, error 0 in the report, and a new folder on the file system above.
#
# Exits with 0 while this is so. Needs Debian 12 with the libraries of fio (apt-get install fio has them).
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fio --version | grep -qx fio-3.33

code=0
fio --name=missing --rw=write --bs=4k --size=64k --filename="$folder/not-mounted/deeper/file" --output-format=json \
  > "$folder/report" || code=$?
error=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["jobs"][0]["error"])' "$folder/report")
created=no
[ ! -f "$folder/not-mounted/deeper/file" ] || created=yes

echo "exit code $code, error $error in the report, folders created: $created"
[ "$code $error $created" = "0 0 yes" ]
