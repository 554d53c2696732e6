# Makes the virtual environment named $1 (once) and installs residua with the extras $2 into it, at pinned versions.
# Sourced by `demo` and `test`; leaves its interpreter in $PYTHON.
set -euo pipefail
unset PYTHONDONTWRITEBYTECODE  # with bytecode kept, every command that the tests run starts in half the time
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "residua needs Python 3.11 or newer" >&2; exit 1; }
if ! python3 -c 'import ensurepip' 2>/dev/null; then  # Debian ships venv apart from Python
  echo "installing python3-venv (Debian keeps it in a package of its own)" >&2
  as_root=""; [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq && $as_root apt-get install -qq -y python3-venv >/dev/null
fi
[ -x "$1/bin/python" ] || python3 -m venv "$1"
PYTHON="$1/bin/python"
installed="$(echo "$2" | cat - pyproject.toml constraints.txt | cksum)"
if [ "$(cat "$1/installed" 2>/dev/null)" != "$installed" ]; then
  pip=("$PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile)
  "${pip[@]}" "pip>=24.1"  # older ones, as Python brings them, take twice as long to choose
  # PySpark comes as sources: 500 MB, which need not be compressed into a wheel only to be unpacked at once.
  printf '[bdist_wheel]\ncompression = stored\n' >"$1/wheels.cfg"
  DIST_EXTRA_CONFIG=$PWD/$1/wheels.cfg "${pip[@]}" --constraint constraints.txt --editable ".$2"
  echo "$installed" >"$1/installed"
fi
