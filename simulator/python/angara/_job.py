"""Jobs: ``angara.run``."""

from __future__ import annotations

import html
import importlib
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _command
from ._command import Done, Folder, Listener, RunError
from ._report import FilePath, Report, Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Run as Options


class Run:
    """A job that has ended."""

    def __init__(self, command: List[str], done: Done, report: Optional[Report], trace: Optional[Trace]) -> None:
        self.command = command
        """The command line, ``angara run …``."""
        self.output = done.output
        """What the program wrote to standard output."""
        self.errors = done.errors
        """What program and command wrote to standard error."""
        self.status = done.status
        """Exit status: see :class:`RunError`."""
        self.report = report
        """Placement, traffic and times. ``None`` if the job was not started, and with ``seeds`` if none failed."""
        self.trace = trace
        """The timeline, with ``trace``."""
        self.times: Dict[str, float] = {"wall_s": done.wall_s}
        """Seconds: ``wall_s`` on the wall, start of the network included; in virtual time also ``virtual_s`` of it."""
        if report is not None and report.virtual_s is not None:
            self.times["virtual_s"] = report.virtual_s

    @property
    def ok(self) -> bool:
        """True if the status is 0."""
        return self.status == 0

    def __repr__(self) -> str:
        times = ", ".join(f"{name} {value:.6g}" for name, value in self.times.items())
        return f"<angara.Run: status {self.status}, {times}>"

    def __str__(self) -> str:
        return self.output

    def _repr_html_(self) -> str:
        picture = self.report._repr_html_() if self.report is not None else ""
        said = "".join(f"<pre>{html.escape(text)}</pre>" for text in (self.output, self.errors) if text)
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{said}{picture}"


def run(
    program: FilePath,
    args: Sequence[Any] = (),
    n: int = 32,
    machine: Optional[FilePath] = "desmos",
    clock: str = "virtual",
    *,
    report: Union[bool, FilePath] = True,
    trace: Union[bool, FilePath] = False,
    check: bool = True,
    stream: Union[bool, Listener] = False,
    env: Optional[Dict[str, Any]] = None,
    input: Optional[str] = None,
    cwd: Optional[FilePath] = None,
    **options: Unpack[Options],
) -> Run:
    """Runs a program as ``n`` PEs on an emulated torus, as ``angara run`` does, and returns when it has ended.

    ``program`` is a path such as ``"./heat2d"``, or a name in ``PATH``; ``args`` are its arguments. It runs on
    ``machine`` in virtual time, unless ``clock="wall"``; ``machine=None`` is the most cubic torus that holds the PEs.

    ``report`` and ``trace`` are files to keep; ``True`` makes one that goes with the result. A program that does not
    use the network has no report, which is an error, unless ``report=False`` and ``clock="wall"``. ``env`` has
    variables for the PEs, ``input`` is standard input of the job, ``cwd`` the directory in which it runs.

    ``stream=True`` also writes lines as they come; a function is called with ``"output"`` or ``"errors"`` and each
    line, and ends the job by an exception. In a notebook, a line says how long the job has been running.

    Ctrl-C ends the job with its processes and raises :class:`KeyboardInterrupt`. A job that fails raises
    :class:`RunError`, unless ``check=False``; wrong arguments raise :class:`ValueError`.
    """
    if isinstance(args, (str, bytes)):
        raise ValueError(f"args is {args!r}: give a list, such as [{args!r}]")
    if not callable(stream) and not isinstance(stream, bool):
        raise ValueError(f"stream is {stream!r}: give True, False or a function of a name and a line")
    folder = Folder()
    report_file, report_keep = _place(report, folder, "report.json.gz")
    trace_file, trace_keep = _place(trace, folder, "trace.json.gz")
    chosen = {"n": n, "machine": machine, "clock": clock, **options}
    chosen.update(report=report_file, trace=trace_file)
    line = ["run", *_command.words("run", chosen)]
    for name, value in (env or {}).items():
        line += ["-x", f"{name}={value}"]
    line += ["--", _program(program), *map(os.fspath, map(_word, args))]
    before = _stamp(report_file)
    with Live(f"{program}: {n} PEs", show=stream is False) as live:
        listener = _print if stream is True else stream if callable(stream) else None
        cwd_path = pathlib.Path(cwd) if cwd is not None else None
        done = _command.execute(line, listener=listener, tick=live.tick, given=input, cwd=cwd_path)
        live.end(done)
    # One that was there before says nothing of this job.
    found, timeline = _written(report_file, before), _written(trace_file)
    if done.status == 2 and report_file and not found:
        _command.fail("run", str(program), done)
    result = Run(
        ["angara", *line],
        done,
        Report(found, report_keep) if found else None,
        Trace(timeline, trace_keep) if timeline else None,
    )
    if done.status != 0 and check:
        _command.fail("run", str(program), done, result)
    return result


run.__doc__ = f"""{run.__doc__}
    Options of ``angara run``, as keyword arguments. Lists stand for options that may be repeated:

{_command.described("run", ["n", "machine", "clock", "report", "trace"])}
"""


def _word(value: Any) -> Any:
    return value if isinstance(value, (str, os.PathLike)) else str(value)


def _program(program: FilePath) -> str:
    """A path without a directory would be looked for in ``PATH``."""
    if isinstance(program, os.PathLike) and os.path.basename(program) == os.fspath(program):
        return os.path.join(".", program)
    return os.fspath(program)


def _place(wanted: Union[bool, FilePath, None], folder: Folder, name: str) -> Tuple[Optional[str], Optional[Folder]]:
    """The file to write, and what it goes with. It is absolute, as the job may run in another directory."""
    if wanted is True:
        return str(folder.path / name), folder
    return (os.path.abspath(wanted), None) if wanted else (None, None)


def _stamp(path: Optional[str]) -> Dict[str, int]:
    """What tells files apart: large ones get an ending of their own."""
    names = [path, f"{path}.gz"] if path else []
    return {name: os.stat(name).st_mtime_ns for name in names if os.path.isfile(name)}


def _written(path: Optional[str], before: Optional[Dict[str, int]] = None) -> Optional[str]:
    new = [name for name, time in _stamp(path).items() if (before or {}).get(name) != time]
    return new[0] if new else None


def _print(name: str, line: str) -> None:
    stream = sys.stdout if name == "output" else sys.stderr
    stream.write(line)
    stream.flush()


class Live:
    """A line in a notebook that says how a job goes on."""

    def __init__(self, what: str, show: bool = True) -> None:
        self._what, self._handle, self._next = what, None, 0.5
        self._show = show and _in_a_notebook()

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and self._handle is not None:
            self._tell("ended")

    def tick(self, seconds: float, lines: int) -> None:
        if self._show and seconds >= self._next:
            self._next = seconds + 0.5
            self._tell(f"{seconds:.1f} s, {lines} lines")

    def end(self, done: Done) -> None:
        if self._handle is not None:
            self._tell(f"ended after {done.wall_s:.1f} s with status {done.status}")

    def _tell(self, text: str) -> None:
        display: Any = importlib.import_module("IPython.display").display
        data = {"text/plain": f"{self._what}: {text}"}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


def _in_a_notebook() -> bool:
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


__all__ = ["Run", "RunError", "run"]
