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
"$PYTHON" -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable ".$2"
