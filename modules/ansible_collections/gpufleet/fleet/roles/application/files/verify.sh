#!/bin/sh
# Verify a unit with the program that reads it. Changes nothing.
# Usage: verify.sh CANDIDATE NAME [GENERATOR]
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
cp "$1" "$folder/$2"
case $2 in
  *.container)
    # podman's generator ends with 0 even where it leaves a file out; then no service is printed.
    [ -n "${3-}" ] || { echo "podman has no generator for quadlets here"; exit 1; }
    QUADLET_UNIT_DIRS=$folder "$3" -dryrun > "$folder/made" 2> "$folder/said"
    grep -q '^ExecStart=' "$folder/made" || { cat "$folder/said"; exit 1; }
    if grep -i 'unsupported key\|converting' "$folder/said"; then exit 1; fi
    ;;
  *)
    # systemd ends with 0 for a key that it does not know, so what it says of this unit decides. What is not there yet
    # (an engine, a unit that comes in the same run) is the role's business, not this unit's.
    systemd-analyze verify "$folder/$2" 2>&1 | grep -F "$2" |
      grep -v 'is not executable: No such file\|not found\.$' > "$folder/wrong"
    if [ -s "$folder/wrong" ]; then
      sed "s|^$folder/||" "$folder/wrong"
      exit 1
    fi
    ;;
esac
exit 0
