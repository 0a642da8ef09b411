"""What to expect: ``angara.whatif``, ``angara.plan`` and ``angara.alloc``."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence as AnySequence
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Union, overload

from . import _command
from ._command import Done, Folder
from ._job import Live, _program, _word
from ._report import FilePath, frame, small_table

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]
    from typing_extensions import Unpack

    from ._options import Alloc as AllocOptions
    from ._options import Plan as PlanOptions
    from ._options import Whatif as WhatifOptions

PLANS = ["barrier", "matmul", "routes", "tree"]
ALLOCS = ["set", "check", "map", "simulate", "slurm"]


class WhatIf(AnySequence[Dict[str, Any]]):
    """A program under every combination: a sequence of rows, one for each, the first of them the one compared with.

    A row has the values of the combination; ``time_ns`` (virtual), ``speed_up`` over the first row, ``waiting`` (share
    of time), ``hottest_link``, ``busy`` (its share of time); ``exit_code``; and ``differs``, true if another run may
    take another time.
    """

    def __init__(self, rows: List[Dict[str, Any]], done: Done, svg: Optional[str]) -> None:
        self.rows = rows
        """The rows."""
        self.text = done.output
        """The table that the command prints."""
        self.errors = done.errors
        """What the command wrote to standard error."""
        self.svg = svg
        """The times as a picture."""

    @overload
    def __getitem__(self, index: int) -> Dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> List[Dict[str, Any]]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Dict[str, Any], List[Dict[str, Any]]]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return iter(self.rows)

    def to_frame(self) -> pandas.DataFrame:
        """The rows as a DataFrame. Needs pandas."""
        return frame(self.rows)

    def __repr__(self) -> str:
        return f"<angara.WhatIf: {len(self)} runs>"

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return (self.svg or "") + small_table(self.rows)


class Answer(Dict[str, Any]):
    """An answer of ``angara plan`` or ``angara alloc``: the members of its JSON."""

    def __init__(self, members: Dict[str, Any], svg: Optional[str] = None) -> None:
        super().__init__(members)
        self.svg = svg
        """A picture, of those that have one."""

    def to_frame(self, table: str = "rows") -> pandas.DataFrame:
        """A member that is a list, such as ``rows``, as a DataFrame. Needs pandas."""
        lists = [name for name, value in self.items() if isinstance(value, list)]
        if table not in lists:
            raise ValueError(f"table is {table!r}: {_command.nearest(str(table), lists)}")
        return frame(self[table])

    def _repr_html_(self) -> str:
        if self.svg:
            return self.svg
        return f"<pre>{html.escape(json.dumps(self, indent=2, ensure_ascii=False)[:10_000])}</pre>"


def whatif(
    program: FilePath,
    args: Sequence[Any] = (),
    n: Union[int, str, Sequence[int]] = 32,
    machine: Union[FilePath, Sequence[FilePath], None] = "desmos",
    *,
    check: bool = True,
    **options: Unpack[WhatifOptions],
) -> WhatIf:
    """Runs a program in virtual time under every combination of the lists, as ``angara whatif`` does.

    Every option with a list is an axis: ``angara.whatif("./heat2d", n=[8, 32], set=["link=15GB/s", "hop=60ns"])``.

    A run that fails raises :class:`RunError`, unless ``check=False``; wrong arguments raise :class:`ValueError`. Ctrl-C
    ends all runs.
    """
    if isinstance(args, (str, bytes)):
        raise ValueError(f"args is {args!r}: give a list, such as [{args!r}]")
    folder = Folder()
    svg, table = options.get("svg") or folder.path / "times.svg", folder.path / "table.json"
    chosen = {"n": n, "machine": machine, **options, "svg": svg}
    line = ["whatif", *_command.words("whatif", chosen), f"--json={table}"]
    line += ["--", _program(program), *map(os.fspath, map(_word, args))]
    with Live(f"{program}: what if") as live:
        done = _command.execute(line, tick=live.tick)
        live.end(done)
    if not table.is_file():
        _command.fail("whatif", str(program), done)
    rows = [_with_numbers(row) for row in json.loads(table.read_bytes())]
    result = WhatIf(rows, done, _picture(svg))
    if done.status != 0 and check:
        _command.fail("whatif", f"angara.whatif of {program}", done, result)
    return result


whatif.__doc__ = f"""{whatif.__doc__}
    Options of ``angara whatif``, as keyword arguments:

{_command.described("whatif", ["n", "machine"])}
"""


def plan(what: str, **options: Unpack[PlanOptions]) -> Answer:
    """Plans without running, as ``angara plan`` does: ``barrier``, ``matmul``, ``routes`` or ``tree``.

    ``angara.plan("tree", torus="4x4")["broadcast_ns"]``. Members end with their unit, such as ``_ns``. Mistakes raise
    :class:`ValueError`. What is a word of Python has an underscore at its end: ``from_``.
    """
    return _answer("plan", what, PLANS, options)


def alloc(what: str, **options: Unpack[AllocOptions]) -> Union[Answer, str]:
    """Chooses nodes of jobs, as ``angara alloc`` does: ``set``, ``check``, ``map``, ``simulate`` or ``slurm``.

    ``angara.alloc("set", torus="4x4", nodes=5)["nodes"]``. ``slurm`` returns what the command prints, as it has no
    other form. Mistakes raise :class:`ValueError`, and what cannot be had :class:`RunError`.
    """
    if what == "slurm":
        done = _command.execute(["alloc", "slurm", *_command.words("alloc slurm", options)])
        return done.output if done.status == 0 else _command.fail("alloc slurm", "angara alloc slurm", done)
    return _answer("alloc", what, ALLOCS, options)


def _answer(command: str, what: str, known: List[str], options: Any) -> Answer:
    if what not in known:
        raise ValueError(f"what is {what!r}: {_command.nearest(str(what), known)}")
    of = f"{command} {what}"
    folder, chosen = Folder(), dict(options)
    # A machine over time is drawn if asked: of one scheduler, policy and seed alone.
    if command == "plan" and "svg" in _command.table(of) and not chosen.get("svg"):
        chosen["svg"] = folder.path / "picture.svg"
    done = _command.execute([command, what, *_command.words(of, chosen), "--json"])
    if done.status != 0:
        _command.fail(of, f"angara {of}", done)
    return Answer(json.loads(done.output), _picture(chosen.get("svg")))


def _with_options(function: Any, command: str, known: List[str]) -> None:
    """Adds the options to what ``help`` says."""
    parts = [f"    Options of {what!r}:\n\n{_command.described(f'{command} {what}')}\n" for what in known]
    function.__doc__ += "\n" + "\n".join(parts)


_with_options(plan, "plan", PLANS)
_with_options(alloc, "alloc", ALLOCS)


def _picture(path: Any) -> Optional[str]:
    """A picture for browsers; there are other kinds."""
    if path is None or not os.fspath(path).endswith(".svg") or not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def _with_numbers(row: Dict[str, Any]) -> Dict[str, Any]:
    """Numbers of PEs and the like are texts where they are axes."""
    return {name: int(value) if isinstance(value, str) and value.isdigit() else value for name, value in row.items()}


__all__ = ["Answer", "WhatIf", "alloc", "plan", "whatif"]
