"""The command ``angara``: where it is, how keyword arguments become its options, and how it is run to its end."""

from __future__ import annotations

import contextlib
import difflib
import importlib.metadata
import io
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import textwrap
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, NoReturn, Optional, Sequence, Tuple

from ._options import OPTIONS

Listener = Callable[[str, str], object]
"""Called with ``"output"`` or ``"errors"``, and a line."""


class RunError(RuntimeError):
    """A command of ``angara`` failed. The message has its status and the end of what it said."""

    def __init__(self, text: str, status: int, output: str, errors: str, result: Any = None) -> None:
        super().__init__(text)
        self.status = status
        """Exit status, as ``angara`` has it: that of the first PE that failed, 128 + N if signal N killed it, 124 after
        ``timeout``, 1 if the job could not be run."""
        self.output = output
        """What was written to standard output."""
        self.errors = errors
        """What was written to standard error."""
        self.result = result
        """What would have been returned with ``check=False``, such as a :class:`Run` with its report."""


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    output: str
    errors: str
    wall_s: float


class Folder:
    """A temporary directory that is there as long as this object, and at most until the interpreter ends."""

    def __init__(self) -> None:
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="angara-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def places(program: str) -> Iterator[pathlib.Path]:
    """Where ``pip`` has put a program of this package: as its list of files says, else where programs usually are."""
    try:
        files = importlib.metadata.files("angara") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == program and file.parent.name == "bin":
            yield pathlib.Path(str(file.locate()))
    yield pathlib.Path(sysconfig.get_path("scripts")) / program


def command() -> pathlib.Path:
    """The command ``angara`` that this package starts: that of ``$ANGARA``, else of the same wheel, else in ``PATH``.

    Compilers such as ``oshcc`` are beside it.
    """
    named = os.environ.get("ANGARA")
    if named:
        if not (os.path.isfile(named) and os.access(named, os.X_OK)):
            raise FileNotFoundError(f"ANGARA is {named}, which is no program: set it to the path of the command angara")
        return pathlib.Path(named).absolute()
    for place in places("angara"):
        if place.is_file():
            # pip's list of files leads there by way of others.
            return place.parent.resolve() / place.name
    found = shutil.which("angara")
    if found is None:
        raise FileNotFoundError(
            "there is no command angara in this environment or in PATH: install the wheel of `cargo xtask wheel`, "
            "which has it, or put the directory of the built one into PATH, or set ANGARA to its path"
        )
    return pathlib.Path(found).absolute()


def nearest(name: str, known: Sequence[str]) -> str:
    """A remedy for a name that is not there."""
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"


def table(of: str) -> Dict[str, Tuple[str, str, str]]:
    """Options of ``angara …`` by their names here: as they are written there, their value, and what they are."""
    return OPTIONS.get(of, {})


def described(of: str, leave: Sequence[str] = ()) -> str:
    """The options of ``angara …`` for the text of ``help``."""
    rows = [
        help_row(name, in_python(of, about) + (f" ({value})" if value else ""))
        for name, (_, value, about) in table(of).items()
        if name not in leave
    ]
    return "\n".join(rows)


def help_row(name: str, about: str) -> str:
    """A row of what ``help`` says."""
    rows = textwrap.TextWrapper(116, "    ", "        ", break_long_words=False, break_on_hyphens=False)
    return rows.fill(f"{name}: {about}")


def in_python(of: str, text: str) -> str:
    """A text of ``angara …`` with options as they are called here: ``pes_as`` for ``--pes-as``."""
    flags = {flag: name for name, (flag, _, _) in table(of).items()}
    text = re.sub(r"'(--[a-z][a-z-]*)(?:\[?[ =]<[^']*)?'", lambda found: flags.get(found[1], found[0]), text)
    return re.sub(r"--[a-z]+(?:-[a-z]+)*", lambda found: flags.get(found[0], found[0]), text)


def words(of: str, options: Mapping[str, Any]) -> List[str]:
    """Keyword arguments as options of ``angara …``. ``None`` is as if it were not there."""
    known, out = table(of), []
    for given, value in options.items():
        name = given.replace("-", "_")
        if name not in known:
            raise ValueError(f"{given} is no option of angara {of}: {nearest(name, list(known))}")
        if value is not None:
            out.extend(_words(name, value, *known[name]))
    return out


def _words(name: str, value: Any, flag: str, form: str, about: str) -> List[str]:
    if value is True or value is False:
        if form == "<YES|NO>":
            return [f"{flag}={'yes' if value else 'no'}"]
        if form and not form.startswith("["):
            raise ValueError(f"{name} is {value}: give a value, {form}")
        return [flag] if value else []
    if not form:
        raise ValueError(f"{name} is {value!r}: give True or False")
    many = _many(value)
    if form.count("<") == 2:
        pairs = [value] if len(many) == 2 and not any(_is_list(one) for one in many) else many
        if not all(_is_list(pair) and len(pair) == 2 for pair in pairs):
            raise ValueError(f"{name} is {value!r}: give a pair, {form}, or a list of pairs")
        return [word for pair in pairs for word in (flag, _text(name, pair[0]), _text(name, pair[1]))]
    if "may be repeated" in about:
        return [f"{flag}={_text(name, one)}" for one in many]
    joint = "x" if form == "<SHAPE>" else ","
    return [f"{flag}={joint.join(_text(name, one) for one in many)}"]


def _is_list(value: Any) -> bool:
    return not isinstance(value, (str, bytes, os.PathLike, Mapping)) and hasattr(value, "__iter__")


def _many(value: Any) -> List[Any]:
    return list(value) if _is_list(value) else [value]


def _text(name: str, value: Any) -> str:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(name, one)}" for key, one in value.items())
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError(f"{name} is {value!r}: give a text, a number, a path, or a list of these")
    return str(value)


def execute(
    arguments: Sequence[str],
    *,
    listener: Optional[Listener] = None,
    tick: Optional[Callable[[float, int], object]] = None,
    given: Optional[str] = None,
    cwd: Optional[os.PathLike[str]] = None,
) -> Done:
    """Runs ``angara`` with these arguments to its end. Whatever is raised meanwhile, Ctrl-C among it, ends it first.

    ``tick`` is called several times a second with seconds and lines so far, ``given`` is its standard input.
    """
    began = time.monotonic()
    lines: queue.Queue[Tuple[str, Optional[str]]] = queue.Queue()
    said: Dict[str, List[str]] = {"output": [], "errors": []}
    with contextlib.ExitStack() as stack:
        stdin: Any = subprocess.DEVNULL
        if given is not None:
            stdin = stack.enter_context(tempfile.TemporaryFile())
            stdin.write(given.encode())
            stdin.seek(0)
        # In a session of its own, a Ctrl-C in the terminal reaches Python alone, which hands it on.
        pipes: Dict[str, Any] = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([str(command()), *arguments], cwd=cwd, start_new_session=True, **pipes)
        stack.callback(_end, process)
        for name, pipe in (("output", process.stdout), ("errors", process.stderr)):
            threading.Thread(target=_read, args=(name, pipe, lines), daemon=True).start()
        _listen(process, lines, said, listener, lambda: tick and tick(time.monotonic() - began, _count(said)))
        status = process.wait()
    # As shells have it.
    status = 128 - status if status < 0 else status
    return Done(status, "".join(said["output"]), "".join(said["errors"]), time.monotonic() - began)


def _count(said: Dict[str, List[str]]) -> int:
    return sum(map(len, said.values()))


def _read(name: str, pipe: Any, lines: queue.Queue[Tuple[str, Optional[str]]]) -> None:
    with io.TextIOWrapper(pipe, encoding="utf-8", errors="replace", newline="\n") as text:
        for line in text:
            lines.put((name, line))
    lines.put((name, None))


def _listen(
    process: subprocess.Popen[bytes],
    lines: queue.Queue[Tuple[str, Optional[str]]],
    said: Dict[str, List[str]],
    listener: Optional[Listener],
    tick: Callable[[], object],
) -> None:
    """Takes all lines. What outlives the command may hold its pipes: then all is what came within a second."""
    still, quiet_since = 2, time.monotonic()
    while still:
        try:
            name, line = lines.get(timeout=0.2)
        except queue.Empty:
            if process.poll() is not None and time.monotonic() - quiet_since > 1:
                return
            tick()
            continue
        quiet_since = time.monotonic()
        if line is None:
            still -= 1
            continue
        said[name].append(line)
        if listener is not None:
            listener(name, line)
        tick()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command that still runs. It ends its job, and the job its processes."""
    try:
        for sign, patience in ((signal.SIGINT, 10), (signal.SIGTERM, 10)):
            if process.poll() is not None:
                return
            process.send_signal(sign)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
    finally:
        # Also at a second Ctrl-C. All that it started ends when it does.
        if process.poll() is None:
            process.kill()
            process.wait()


def said_in_python(of: str, errors: str) -> str:
    """What ``angara …`` said of a mistake, in the names of keyword arguments and without hints for command lines."""
    text = re.split(r"\n\n?Usage: |\n\nFor more information, try", errors.strip())[0]
    text = re.sub(r"^(?:angara: )?error: ", "", text)
    return in_python(of, re.sub(r"\nangara: try: ", "\n  ", text)).strip()


def fail(of: str, what: str, done: Done, result: Any = None) -> NoReturn:
    """Says that a command failed: by :class:`ValueError` for wrong arguments, with which nothing was started."""
    if result is None and done.status == 2:
        raise ValueError(said_in_python(of, done.errors))
    end = "\n".join(done.errors.strip().splitlines()[-12:])
    raise RunError(f"{what} ended with status {done.status}\n{in_python(of, end)}", *done[:3], result)
