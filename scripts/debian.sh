#!/usr/bin/env bash
# Installs the Debian packages named whose command this machine lacks: bash scripts/debian.sh chromium=chromium …
# An argument is COMMAND=PACKAGE; the command may be a path or a pattern.
set -euo pipefail
missing=()
for each in "$@"; do
  command -v "${each%%=*}" >/dev/null || compgen -G "${each%%=*}" >/dev/null || missing+=("${each#*=}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || { echo "the tests need ${missing[*]}: install them" >&2; exit 1; }
echo "installing ${missing[*]} (Debian packages that the tests need)" >&2
as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
apt() { $as_root apt-get -o DPkg::Lock::Timeout=300 -qq "$@"; }
apt update && apt install -y --no-install-recommends "${missing[@]}" >/dev/null
