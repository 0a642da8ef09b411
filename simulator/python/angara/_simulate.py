"""Simulations of interconnection networks, the same as those of ``angara sim run`` and ``angara sim sweep``."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Union, overload

from . import _angara
from ._command import help_row, nearest
from ._report import frame

if TYPE_CHECKING:
    import numpy as np
    import pandas  # type: ignore[import-untyped, unused-ignore]
    from typing_extensions import Unpack

    from ._settings import Lists, Settings

Progress = Callable[[str, int, int], object]


class Outcome:
    """Result of a simulation. Fields are attributes and items: ``outcome.packet_latency_cycles``.

    The fields depend on the workload; :meth:`to_dict` has all. Those of open-loop traffic are listed here.
    """

    settings: Dict[str, Any]
    """All settings, with defaults filled in."""
    packet_latency_cycles: Optional[float]
    """Mean latency, from a message's creation to the arrival of its last flit. ``None`` if nothing arrived."""
    packet_latency_ns: Optional[float]
    """The same in nanoseconds."""
    confidence: Optional[float]
    """Half-width of the 95 % confidence interval of the mean latency, router cycles."""
    latency_percentiles_cycles: Dict[str, float]
    """``p50``, ``p95``, ``p99`` and ``max``."""
    latency_by_routers: List[Dict[str, float]]
    """``messages``, ``mean_cycles`` and ``max_cycles`` for each number of ``routers`` passed."""
    latency_by_flits: List[Dict[str, float]]
    """The same for each length in ``flits``."""
    accepted_flits_per_node_cycle: float
    """Flits that arrived per node and cycle."""
    offered_flits_per_node_cycle: float
    """Flits that were created per node and cycle."""
    mean_routers_visited: Optional[float]
    """Routers that a packet passed."""
    saturated: bool
    """True if the network does not carry the load. Latency then depends on the length of the run."""
    packets: int
    """Messages that arrived in the time measured."""
    warmup_cycles: int
    """Cycles before measuring."""
    measured_cycles: int
    """Cycles measured."""
    cycle_ps: int
    """Length of a router cycle in picoseconds."""
    wall_s: float
    """Time that the simulation took, in seconds. Points of a sweep do not have it."""

    def __init__(
        self,
        fields: Dict[str, Any],
        text: str = "",
        histograms: Optional[Dict[str, Dict[str, np.ndarray]]] = None,
        link_loads: Optional[Dict[str, np.ndarray]] = None,
        swept: Optional[Dict[str, Any]] = None,
    ) -> None:
        self._fields = fields
        self.text = text
        """What the command prints."""
        self.swept = swept or {}
        """Values of the swept settings, for a point of a sweep."""
        self.histograms = histograms or {}
        """Distributions of latencies by name: ``latency``, or the name of each job. See :attr:`histogram`."""
        self.link_loads = link_loads
        """Load of every link, with ``count_links=True``: arrays as long as there are links.

        ``name``, ``router``, ``port``, ``to_endpoint``, ``cut``, ``packets``, ``flits``, ``flits_per_cycle``,
        ``replays``, ``crc_errors``, ``duplicates``, ``reordered``.
        """

    @property
    def histogram(self) -> Dict[str, np.ndarray]:
        """The distribution of latencies: ``low_cycles``, ``high_cycles`` and ``messages`` of every bucket.

        A bucket holds latencies from ``low_cycles`` to ``high_cycles``, both included. Empty ones are left out.
        """
        if "latency" not in self.histograms:
            raise ValueError("this result has no distribution of latencies; histograms has those of jobs")
        return self.histograms["latency"]

    def to_dict(self) -> Dict[str, Any]:
        """All fields: numbers, truth values, texts, and objects of these."""
        return dict(self._fields)

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", {})
        if name in fields:
            return fields[name]
        raise AttributeError(f"this result has no field {name}; there are {', '.join(fields)}")

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __dir__(self) -> List[str]:
        return [*super().__dir__(), *self._fields]

    def __repr__(self) -> str:
        lines = self.text.splitlines()
        about = lines[0] if lines else ", ".join(f"{name}={value!r}" for name, value in self.swept.items())
        return f"<angara.Outcome: {about}>"

    def __str__(self) -> str:
        return self.text or repr(self)


class Sweep(Sequence[Outcome]):
    """Results of a sweep: a sequence of :class:`Outcome`, the last of :attr:`names` varying fastest."""

    def __init__(self, names: List[str], points: List[Outcome], text: str) -> None:
        self.names = names
        """The swept settings."""
        self.text = text
        """The table that the command prints."""
        self._points = points

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> List[Outcome]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Outcome, List[Outcome]]:
        return self._points[index]

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self._points)

    def to_dicts(self) -> List[Dict[str, Any]]:
        """A flat dict per point with the names of ``sweep.csv``: swept settings, then fields.

        Fields of objects are called ``object.field``. Lists and the other settings are left out.
        """
        return [{**point.swept, **_flat(point._fields)} for point in self._points]

    def column(self, name: str) -> np.ndarray:
        """A swept setting or a field at every point. Numbers that are missing are ``nan``."""
        import numpy as np

        rows = self.to_dicts()
        if not any(name in row for row in rows):
            known = dict.fromkeys(known for row in rows for known in row)
            raise ValueError(f"column is {name}: there are {', '.join(known)}")
        values = [row.get(name) for row in rows]
        if any(isinstance(value, str) for value in values):
            return np.array(values, dtype=object)
        return np.array([np.nan if value is None else value for value in values])

    def to_frame(self) -> pandas.DataFrame:
        """The rows of :meth:`to_dicts` as a DataFrame. Needs pandas."""
        return frame(self.to_dicts())

    def __repr__(self) -> str:
        return f"<angara.Sweep: {len(self)} points of {', '.join(self.names)}>"

    def __str__(self) -> str:
        return self.text


def simulate(
    *,
    preset: Optional[str] = None,
    count_links: bool = False,
    progress: Optional[Progress] = None,
    **settings: Unpack[Settings],
) -> Outcome:
    """Runs one simulation, as ``angara sim run`` does.

    ``preset`` names a prepared network (:func:`presets`); other settings win over it. ``count_links`` also counts
    what every link carries. ``progress`` is called with what is being done, steps done and steps in all, up to 20
    times a second. ``pattern`` and ``rates`` also take an array of relative rates: a row per source, or a number.

    Other threads of Python run meanwhile. Ctrl-C raises :class:`KeyboardInterrupt`. A mistake raises
    :class:`ValueError`, with the value and a remedy.
    """
    _require_numpy()
    _known(settings, list(_about()), "setting")
    with _Files() as files, _in_python(files):
        text = _json(files.settings(settings))
        done = _angara.simulate(text, preset, bool(count_links), progress)
    return Outcome(
        files.named(json.loads(done["result"])),
        files.name_in(done["text"]),
        {name: _arrays(columns) for name, columns in done["histograms"].items()},
        _arrays(done["links"]) if "links" in done else None,
    )


def sweep(
    base: Optional[Settings] = None,
    *,
    threads: Optional[int] = None,
    progress: Optional[Progress] = None,
    **lists: Unpack[Lists],
) -> Sweep:
    """Runs a simulation for every combination of the lists, as ``angara sim sweep`` does.

    ``base`` has the settings that all points share. An array is called by its place in the list, ``pattern[0]``,
    wherever rows name its setting. ``threads`` is the number of points that run at once, by
    default one for each core that this process may use; results do not depend on it.
    """
    _require_numpy()
    if threads is None:
        threads = _cores()
    known = settings()
    _known(base or {}, known, "setting")
    _known(lists, [name for name in known if name != "threads"], "setting to sweep")
    with _Files() as files, _in_python(files):
        table = files.settings({**(base or {}), "threads": threads})
        table["sweep"] = {
            _dashes(name): [files.value(name, value, f"{name}[{i}]") for i, value in enumerate(_several(values))]
            for name, values in lists.items()
        }
        done = _angara.run_sweep(_json(table), files.shown, progress)
    points = []
    for row in json.loads(done["rows"]):
        swept = row.pop("swept")
        points.append(Outcome(files.named(row), swept={_underscores(name): _number(swept[name]) for name in done["names"]}))
    return Sweep([_underscores(name) for name in done["names"]], points, done["text"])


def _known(given: Iterable[str], among: List[str], what: str) -> None:
    """Refuses names that are not there."""
    for name in given:
        if _underscores(name) not in among:
            raise ValueError(f"{name} is no {what}: {nearest(name, among)}")


@contextlib.contextmanager
def _in_python(files: _Files) -> Iterator[None]:
    """Says settings and arrays as they are called here in what the simulator says of a mistake."""
    try:
        yield
    except (ValueError, OSError) as e:
        text = _words(files.name_in(str(e)))
        # Not one of a function that was told of progress.
        if text == str(e) or len(e.args) != 1:
            raise
        raise type(e)(text) from None


def _words(text: str) -> str:
    names = [_dashes(name) for name in [*settings(), "preset"]]
    text = re.sub(r"--(" + "|".join(map(re.escape, names)) + r")(?![\w-])", lambda found: _underscores(found[1]), text)
    dashed = "|".join(re.escape(name) for name in names if "-" in name)
    return re.sub(rf"(?<![\w.:/-])({dashed})(?![\w/-])", lambda found: _underscores(found[1]), text)


def _require_numpy() -> None:
    """The commands that are installed with this do without it, so it need not be there."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        raise ModuleNotFoundError("simulations from Python need NumPy: pip install numpy", name="numpy") from None


def settings() -> List[str]:
    """Names of all settings, as keyword arguments."""
    return list(_about())


def _about() -> Dict[str, str]:
    """Settings, and what they are, with units and defaults."""
    return {_underscores(one["name"]): one["about"] for one in json.loads(_angara.catalog())["settings"]}


def presets() -> Dict[str, str]:
    """Prepared networks: names, and what they are."""
    return {one["name"]: one["about"] for one in json.loads(_angara.catalog())["presets"]}


def workloads() -> Dict[str, str]:
    """Workloads: how they are written, and what they do."""
    return {one["name"]: one["about"] for one in json.loads(_angara.catalog())["workloads"]}


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def _dashes(name: str) -> str:
    return name.replace("_", "-")


def _underscores(name: str) -> str:
    return name.replace("-", "_")


class _Files:
    """Settings as the simulator reads them; arrays are written to files that last as long as the call."""

    def __init__(self) -> None:
        self._dir: Optional[tempfile.TemporaryDirectory[str]] = None
        # What stands for an array in the settings, and how it is called here.
        self.shown: Dict[str, str] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        if self._dir is not None:
            self._dir.cleanup()

    def settings(self, given: Mapping[str, Any]) -> Dict[str, Any]:
        return {_dashes(name): self.value(name, value, name) for name, value in given.items() if value is not None}

    def value(self, name: str, value: Any, shown: str) -> Any:
        rates = not isinstance(value, (str, bytes, os.PathLike)) and hasattr(value, "__len__")
        if name == "pattern" and rates:
            text = "matrix:" + self._write(shown, value, 2, "a row of rates for every source")
        elif name == "rates" and rates:
            text = self._write(shown, value, 1, "a rate for every rank")
        else:
            return value
        self.shown[text] = shown
        return text

    def named(self, result: Any) -> Any:
        """A result in which arrays have their names."""
        if isinstance(result, dict):
            return {key: self.named(value) for key, value in result.items()}
        if isinstance(result, list):
            return [self.named(value) for value in result]
        return self.name_in(result) if isinstance(result, str) else result

    def name_in(self, text: str) -> str:
        """A text in which arrays have their names, and lines of their files are rows, counted from 0."""
        for stored, shown in self.shown.items():
            path = re.escape(stored[len("matrix:") :] if stored.startswith("matrix:") else stored)

            def place(found: re.Match[str], shown: str = shown) -> str:
                return shown if found[1] is None else f"{shown}, row {int(found[1]) - 1}"

            text = re.sub(rf"(?:matrix:)?{path}(?::(\d+))?", place, text)
        return text

    def _write(self, name: str, value: Any, dimensions: int, wanted: str) -> str:
        import numpy as np

        try:
            numbers = np.asarray(value, dtype=float)
        except (TypeError, ValueError) as e:
            raise ValueError(f"{name} is no array of numbers ({e}): give {wanted}") from None
        square = len(set(numbers.shape)) == 1
        if numbers.ndim != dimensions or not square:
            raise ValueError(f"{name} is an array of shape {numbers.shape}: give {wanted}")
        _check_rates(name, numbers)
        if self._dir is None:
            self._dir = tempfile.TemporaryDirectory(prefix="angara-")
        path = pathlib.Path(self._dir.name) / f"rates{len(self.shown)}.txt"
        # As many digits as a number has.
        path.write_text("".join(" ".join(map(repr, row)) + "\n" for row in np.atleast_2d(numbers).tolist()))
        return str(path)


def _check_rates(name: str, numbers: np.ndarray) -> None:
    """Refuses rates that are none, with their place."""
    import numpy as np

    for at in np.argwhere(~(np.isfinite(numbers) & (numbers >= 0)))[:1].tolist():
        place = f"row {at[0]}, column {at[1]}" if len(at) == 2 else f"element {at[0]}"
        raise ValueError(f"{name}, {place}, is {numbers[tuple(at)]}: give a finite rate of at least 0")
    if not numbers.any():
        raise ValueError(f"{name} has no rate above 0: give one at least")
    with np.errstate(over="ignore"):
        sums = np.atleast_2d(numbers).sum(axis=1)
    for row in np.flatnonzero(~np.isfinite(sums))[:1].tolist():
        place = f"{name}, row {row}," if numbers.ndim == 2 else name
        raise ValueError(f"{place} has no finite sum: give smaller rates")


def _several(values: Any) -> List[Any]:
    """The values of a swept setting; a text is a single one."""
    if isinstance(values, (str, bytes, os.PathLike)) or not hasattr(values, "__iter__"):
        return [values]
    return list(values)


def _json(settings: Dict[str, Any]) -> str:
    import numpy as np

    def other(value: Any) -> Any:
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        raise TypeError(f"a setting is {value!r}: give a number, a text or a list of texts")

    return json.dumps(settings, default=other, allow_nan=False)


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


def _arrays(columns: Dict[str, Any]) -> Dict[str, np.ndarray]:
    import numpy as np

    kinds = {"name": object, "flits_per_cycle": np.float64, "to_endpoint": bool, "cut": bool}

    def array(name: str, column: Any) -> np.ndarray:
        if not isinstance(column, bytes):
            return np.array(column, dtype=object)
        kind = kinds.get(name, np.int64)
        return np.frombuffer(column, dtype=np.int64 if kind is bool else kind).astype(kind)

    return {name: array(name, column) for name, column in columns.items()}


def _flat(fields: Dict[str, Any]) -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for name, value in fields.items():
        if name == "settings" or isinstance(value, list):
            continue
        if isinstance(value, dict):
            flat.update({f"{name}.{inner}": one for inner, one in _flat(value).items()})
        else:
            flat[name] = value
    return flat


def _with_settings(function: Any, introduction: str, leave: Sequence[str] = ()) -> None:
    """Adds the settings to what ``help`` says."""
    rows = [help_row(name, _words(about)) for name, about in _about().items() if name not in leave]
    function.__doc__ += f"\n    {introduction}\n\n" + "\n".join(rows) + "\n"


_with_settings(simulate, "Settings:")
_with_settings(sweep, "Settings, of which each may be a list of values:", ["threads"])
