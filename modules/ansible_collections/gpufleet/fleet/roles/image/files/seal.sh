#!/bin/sh
# Take off what must be each machine's own, so that nodes of one image are not one and the same.
set -eu
for key in /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub; do
  [ -e "$key" ] && rm -f "$key" && echo "took $key"
done
if [ -s /etc/machine-id ]; then
  : > /etc/machine-id # empty, not missing: systemd makes a new one at boot (machine-id(5))
  rm -f /var/lib/dbus/machine-id
  echo "took /etc/machine-id"
fi
if command -v cloud-init > /dev/null; then
  cloud-init clean --logs > /dev/null
  echo "took what cloud-init remembers"
fi
rm -f /root/.bash_history /home/*/.bash_history
if command -v apt-get > /dev/null; then apt-get clean; fi
