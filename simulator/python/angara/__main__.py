"""``python -m angara``: the command ``angara`` of the same installation, and ``python -m angara examples``."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import List, NoReturn

from ._command import places

EXAMPLES = pathlib.Path(__file__).with_name("examples")


def _become(program: str, name: str) -> NoReturn:
    """This process goes on as ``program``, called by ``name``, with the same arguments."""
    for place in places(program):
        if place.is_file():
            os.execv(place, [name, *sys.argv[1:]])
    sys.exit(
        f"angara: no program {program} belongs to this package, which has the simulator alone\n"
        "  install the wheel of `cargo xtask wheel`, which has the commands, too"
    )


def _examples(words: List[str]) -> None:
    """Copies notebooks and programs into a directory."""
    if len(words) > 1 or words[:1] in (["-h"], ["--help"]):
        sys.exit("usage: python -m angara examples [DIR]\n  copies notebooks and programs to DIR [angara-examples]")
    to = pathlib.Path(words[0] if words else "angara-examples")
    files = sorted(path for path in EXAMPLES.iterdir() if path.is_file())
    there = [to / file.name for file in files if (to / file.name).exists()]
    if there:
        sys.exit(f"angara: {there[0]} is there already: give another directory, or move it away")
    try:
        to.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(file, to / file.name)
            print(to / file.name)
    except OSError as e:
        sys.exit(f"angara: cannot copy the examples: {e}")


def main() -> None:
    """``angara``"""
    if sys.argv[1:2] == ["examples"]:
        return _examples(sys.argv[2:])
    _become("angara", "angara")


def oshcxx() -> NoReturn:
    """``oshc++``: wheels have no symbolic links, and the program goes by the name under which it is called."""
    _become("oshcc", str(pathlib.Path(sys.argv[0]).with_name("oshc++")))


if __name__ == "__main__":
    main()
