# What the tests need and pip cannot install, from Debian's packages: a Java machine for Spark (17 or newer).
# Sourced by `test`; does nothing where it is there.
missing=()
command -v java >/dev/null || missing+=(default-jre-headless)
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing ${missing[*]}" >&2
  as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq && $as_root apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi
