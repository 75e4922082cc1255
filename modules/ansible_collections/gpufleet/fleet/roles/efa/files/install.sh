#!/bin/sh
# Brings AWS's EFA software to one version. Says `installed VERSION`, `would install VERSION` or `kept VERSION`.
# Nothing of the archive is unpacked before its checksum is right, and a failed run leaves none of it behind.
# Usage: install.sh trial|apply VERSION SHA256 URL [OPTION OF efa_installer.sh…]
set -eu
mode=$1 version=$2 sha256=$3 url=$4
shift 4
# The installer leaves `# EFA installer version: 1.47.0` there.
record=/opt/amazon/efa_installed_packages
if grep -qsFx "# EFA installer version: $version" "$record"; then
  echo "kept $version"
  exit 0
fi
if [ "$mode" = trial ]; then
  echo "would install $version"
  exit 0
fi
work=$(mktemp -d /var/tmp/gpufleet-efa-XXXXXX)
trap 'rm -rf "$work"' EXIT
# Python is on every host that Ansible reaches; curl is not.
python3 - "$url" "$work/installer.tar.gz" << 'PYTHON'
import shutil
import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1], timeout=60) as source, open(sys.argv[2], "wb") as target:
    shutil.copyfileobj(source, target)
PYTHON
if ! echo "$sha256  $work/installer.tar.gz" | sha256sum --check --status; then
  found=$(sha256sum "$work/installer.tar.gz" | cut -d ' ' -f 1)
  echo "refused: $url has the checksum $found, not $sha256" >&2
  exit 3
fi
tar --extract --gzip --no-same-owner --file "$work/installer.tar.gz" --directory "$work"
cd "$work/aws-efa-installer"
./efa_installer.sh "$@" > "$work/log" 2>&1 || {
  status=$?
  tail -n 3 "$work/log" >&2
  exit "$status"
}
if ! grep -qsFx "# EFA installer version: $version" "$record"; then
  echo "the installer ended well, but $record does not name $version" >&2
  exit 4
fi
echo "installed $version"
