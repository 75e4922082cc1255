#!/bin/sh
for folder in /etc/tuned/profiles /etc/tuned; do [ -d "$folder" ] && break; done
echo "profiles=$folder"
echo "available=$([ -w "$1/policy0/scaling_governor" ] && cat "$1/policy0/scaling_available_governors" 2>/dev/null)"
echo "current=$(cat "$1"/policy*/scaling_governor 2>/dev/null | sort -u | tr '\n' ' ')"
echo "tuned=$(systemctl -q is-active tuned.service && echo yes)"
echo "profile=$(cat /etc/tuned/active_profile 2>/dev/null)"
echo "include=$(sed -n 's/^include=//p' "$folder/gpufleet/tuned.conf" 2>/dev/null)"
