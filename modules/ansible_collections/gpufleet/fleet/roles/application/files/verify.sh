#!/bin/sh
# Check container files with the program that runs them. Changes nothing.
# Usage: verify.sh GENERATOR quadlet NAME TEXT [NAME TEXT...]   all quadlets together, because one may name others
#        verify.sh docker compose FOLDER FILE                   a compose file as if it were in FOLDER
set -u
program=$1 kind=$2
shift 2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

if [ "$kind" = compose ]; then
  # The last step reads the files of variables. The role itself reports those that are missing.
  "$program" compose --project-directory "$1" --file "$2" config --quiet 2> "$folder/said" && exit 0
  grep -v '^time=.*level=warning' "$folder/said" > "$folder/wrong"
  if grep -q '^env file .* not found' "$folder/wrong"; then exit 0; fi
  cat "$folder/wrong"
  exit 1
fi

# In a folder of its own, as it is installed: podman before 4.7 does not read those.
mkdir -p "$folder/units/gpufleet"
names=
while [ $# -gt 0 ]; do
  printf '%s' "$2" > "$folder/units/gpufleet/$1"
  names="$names $1"
  shift 2
done
# The generator can end with 0 although it leaves a file out or does not know a key of it.
QUADLET_UNIT_DIRS=$folder/units "$program" -dryrun > "$folder/made" 2> "$folder/said"
sed -n "s|^quadlet-generator\[[0-9]*\]: ||; s|$folder/units/gpufleet/||g; /^Loading source/d; p" "$folder/said" > "$folder/wrong"
for name in $names; do
  case $name in
    *.container) grep -qxF -e "---${name%.container}.service---" "$folder/made" && continue ;;
    *) continue ;;
  esac
  cat "$folder/wrong"
  echo "podman makes no service of $name"
  exit 1
done
if grep -i 'unsupported key\|converting' "$folder/wrong"; then exit 1; fi
exit 0
