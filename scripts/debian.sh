#!/usr/bin/env bash
# Installs the Debian packages named that this machine lacks: bash scripts/debian.sh chromium
set -euo pipefail
missing=()
for package in "$@"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "ok installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
echo "installing ${missing[*]} (Debian packages that the tests need)" >&2
as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq && $as_root apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
