#!/bin/sh
# The commands of the wheel, in an environment of Python: of the newest wheel in target/wheel, or of one that is built now
# if there is none or it needs a newer system.
set -eu
cd "$(dirname "$0")/.."
python3 -m venv ~/.angara
wheel=$(find target/wheel -name 'angara-*.whl' -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d ' ' -f 2-)
if [ -z "$wheel" ] || ! ~/.angara/bin/pip install --force-reinstall --no-index "$wheel"; then
    ~/.angara/bin/pip install --force-reinstall --no-index "$(cargo xtask wheel)"
fi
~/.angara/bin/angara --version
