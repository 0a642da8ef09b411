"""``python -m angara``: the command ``angara`` of the same installation."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import sys
import sysconfig
from typing import Iterator, NoReturn


def _places(program: str) -> Iterator[pathlib.Path]:
    """Where ``pip`` has put a program of this package: as its own list of files says, else where programs usually are."""
    try:
        files = importlib.metadata.files("angara") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == program and file.parent.name == "bin":
            yield pathlib.Path(str(file.locate()))
    yield pathlib.Path(sysconfig.get_path("scripts")) / program


def _become(program: str, name: str) -> NoReturn:
    """This process goes on as ``program``, called by ``name``, with the same arguments."""
    for place in _places(program):
        if place.is_file():
            os.execv(place, [name, *sys.argv[1:]])
    sys.exit(
        f"angara: no program {program} belongs to this package, which has the simulator alone\n"
        "  install the wheel of `cargo xtask wheel`, which has the commands, too"
    )


def main() -> NoReturn:
    """``angara``"""
    _become("angara", "angara")


def oshcxx() -> NoReturn:
    """``oshc++``: wheels have no symbolic links, and the program goes by the name under which it is called."""
    _become("oshcc", str(pathlib.Path(sys.argv[0]).with_name("oshc++")))


if __name__ == "__main__":
    main()
