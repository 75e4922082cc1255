#!/bin/sh
# With this drop-in in place: would sshd start, and let USER in with a key? Silent if so; else the reason, status 1.
# Usage: sshd_admits.sh CANDIDATE DROP_IN_NAME USER [CONFIG_FOLDER]
set -eu
candidate=$1 name=$2 user=$3 folder=${4:-/etc/ssh}
refuse() { echo "$*" >&2; exit 1; }

# sshd judges a copy of the host's own files with the candidate among them.
mkdir -p /run/sshd
trial=$(mktemp -d /run/gpufleet-sshd-XXXXXX)
trap 'rm -rf "$trial"' EXIT
cp -R "$folder/sshd_config" "$folder/sshd_config.d" "$trial"/
cp "$candidate" "$trial/sshd_config.d/$name"
sed -i "s#$folder/sshd_config\.d#$trial/sshd_config.d#g" "$trial/sshd_config"
grep -q "^Include $trial/sshd_config.d/" "$trial/sshd_config" || refuse "$folder/sshd_config does not include its drop-ins"
from=${SSH_CONNECTION:-192.0.2.1}
effective=$(/usr/sbin/sshd -T -f "$trial/sshd_config" -C "user=$user,host=controller,addr=${from%% *}" 2>&1) ||
  refuse "$(echo "$effective" | sed "s#$trial#$folder#g" | head -n 1)"

value() { echo "$effective" | sed -n "s/^$1 //p"; }
# Says whether one of the names (arguments 2 and on) fits one of sshd's patterns for a setting. A pattern that also
# names a host ("user@host") is not counted on.
fits() {
  patterns=$(value "$1"); shift
  for pattern in $patterns; do
    for known in "$@"; do
      # shellcheck disable=SC2254 # sshd's * and ? mean here what they mean there
      case $known in $pattern) return 0 ;; esac
    done
  done
  return 1
}
set -f # patterns must not become names of files
[ "$(value pubkeyauthentication)" = yes ] || refuse "sshd would accept no keys (PubkeyAuthentication)"
[ "$(value authorizedkeysfile)" != none ] || refuse "sshd would read no authorized keys (AuthorizedKeysFile)"
case " $(value authenticationmethods) " in
  *" any "* | *" publickey "* | "  ") ;;
  *) refuse "sshd would want more than a key (AuthenticationMethods)" ;;
esac
if [ "$(id -u "$user")" = 0 ]; then
  case $(value permitrootlogin) in
    no | forced-commands-only) refuse "sshd would not let $user in (PermitRootLogin)" ;;
  esac
fi
groups=$(id -Gn "$user")
if fits denyusers "$user"; then refuse "sshd would not let $user in (DenyUsers)"; fi
# shellcheck disable=SC2086 # one word a group
if fits denygroups $groups; then refuse "sshd would not let $user in (DenyGroups)"; fi
[ -z "$(value allowusers)" ] || fits allowusers "$user" || refuse "sshd would not let $user in (AllowUsers)"
# shellcheck disable=SC2086 # one word a group
[ -z "$(value allowgroups)" ] || fits allowgroups $groups || refuse "sshd would not let $user in (AllowGroups)"
