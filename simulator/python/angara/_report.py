"""What jobs leave: reports and timelines, as dicts, tables and pictures."""

from __future__ import annotations

import gzip
import html as _html
import json
import os
import pathlib
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from . import _command

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped, unused-ignore]

FilePath = Union[str, "os.PathLike[str]"]
TRAFFIC = ("packets", "flits", "bytes")


def frame(rows: Sequence[Any]) -> pandas.DataFrame:
    """A DataFrame of rows."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ImportError("DataFrames need pandas: pip install pandas", name="pandas") from None
    return pandas.DataFrame(rows)


def small_table(rows: Sequence[Dict[str, Any]], most: int = 20) -> str:
    """The first rows as HTML."""
    names = list(dict.fromkeys(name for row in rows for name in row))

    def line(cells: Sequence[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line([_short(row.get(name)) for name in names], "td") for row in rows[:most])
    more = f"<p>{len(rows) - most} more rows</p>" if len(rows) > most else ""
    return f"<table>{line(names, 'th')}{body}</table>{more}"


def _short(value: Any) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def _read(path: pathlib.Path, what: str) -> Any:
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, EOFError, gzip.BadGzipFile) as e:
        raise ValueError(f"{path} is no {what}: {e}") from None


def _ask(words: Sequence[str], what: str) -> str:
    """What a command prints."""
    done = _command.execute(words)
    if done.status != 0:
        _command.fail("", what, done)
    return done.output


class Report(Dict[str, Any]):
    """A report of ``angara.run``: the members of its JSON (docs/reference/formats.md), and tables of them."""

    def __init__(self, path: FilePath, keep: object = None) -> None:
        self.path = pathlib.Path(path)
        """The file."""
        # The directory in which it is goes with the last that needs it.
        self._keep = keep
        members = _read(self.path, "report of `angara run --report`")
        if not isinstance(members, dict) or "placement" not in members or "links" not in members:
            raise ValueError(f"{path} is no report of `angara run --report`: it has no placement and links")
        super().__init__(members)

    @property
    def text(self) -> str:
        """As ``angara report`` prints it: tables and heat maps."""
        return _ask(["report", str(self.path)], "angara report")

    @property
    def virtual_s(self) -> Optional[float]:
        """Virtual time of the job in seconds, until its last PE ended; ``None`` in real time."""
        return self["wall_s"] if self.get("virtual_time") else None

    def to_dicts(self) -> List[Dict[str, Any]]:
        """A row for each PE: its node, what it sent and got, and in virtual time where its time went.

        Times are picoseconds: ``end_ps`` is when it ended, ``compute_ps`` computing, ``software_ps`` calls of the
        library, ``for_data_ps`` waiting for others' writes, ``for_network_ps`` waiting for its own operations and
        barriers, ``other_ps`` the rest.
        """
        rows: List[Dict[str, Any]] = []
        for pe, node in enumerate(self["placement"]):
            rows.append({"pe": pe, "node": node, "sent_bytes": 0, "received_bytes": 0})
        for source, target, _, _, *counts in self.get("pairs", []):
            for sender, receiver, count in ((source, target, counts[2]), (target, source, counts[5])):
                rows[sender]["sent_bytes"] += count
                rows[receiver]["received_bytes"] += count
        times = (self.get("virtual_time") or {}).get("pes", [])
        for row, one in zip(rows, times):
            parts = {name: one[name] for name in ("compute", "software", "for_data", "for_network")}
            row.update({"end_ps": one["end"], **{f"{name}_ps": ps for name, ps in parts.items()}})
            row.update(other_ps=one["end"] - sum(parts.values()), posts=one["posts"])
        return rows

    def to_frame(self) -> pandas.DataFrame:
        """The rows of :meth:`to_dicts` as a DataFrame. Needs pandas."""
        return frame(self.to_dicts())

    def links_frame(self) -> pandas.DataFrame:
        """A row for each link with traffic: ``packets``, ``flits``, ``bytes`` (payload), also by class. Needs pandas.

        ``link`` is the node's coordinates and the direction. ``crc_errors``, ``replays``, ``duplicates`` and
        ``reordered`` are packets.
        """
        classes = sorted({name for link in self["links"] for name in link["load"]})
        rows = []
        for link in self["links"]:
            row = {"link": f"{self._coordinates(link['node'])} {link['dir']}", "node": link["node"]}
            row.update({"dir": link["dir"], "to": link["to"]})
            for what in TRAFFIC:
                row[what] = sum(load[what] for load in link["load"].values())
            for name in classes:
                load = link["load"].get(name, {})
                row.update({f"{name}_{what}": load.get(what, 0) for what in TRAFFIC})
            names = ("crc_errors", "replays", "duplicates", "reordered", "up")
            rows.append({**row, **{name: link[name] for name in names}})
        return frame(rows)

    def matrix(self, what: str = "bytes") -> List[List[int]]:
        """What each PE (row) sent to each other one (column): ``bytes`` of payload, ``packets`` or ``flits``.

        Answers, such as the data of a get, are sent by the PE that was asked.
        """
        if what not in TRAFFIC:
            raise ValueError(f"what is {what!r}: {_command.nearest(str(what), TRAFFIC)}")
        at, pes = TRAFFIC.index(what), len(self["placement"])
        matrix = [[0] * pes for _ in range(pes)]
        for source, target, _, _, *counts in self.get("pairs", []):
            matrix[source][target] += counts[at]
            matrix[target][source] += counts[3 + at]
        return matrix

    def matrix_frame(self, what: str = "bytes") -> pandas.DataFrame:
        """:meth:`matrix` as a DataFrame: a row for each PE that sends, a column for each that gets. Needs pandas."""
        found = frame(self.matrix(what))
        found.index.name, found.columns.name = "from_pe", f"{what}_to_pe"
        return found

    def html(self) -> str:
        """The page of ``angara report --html``: the torus and its links, for any browser."""
        folder = _command.Folder()
        page = folder.path / "report.html"
        _ask(["report", "--html", str(page), str(self.path)], "angara report")
        return page.read_text(encoding="utf-8")

    def _coordinates(self, node: int) -> str:
        sizes, out = self["shape"].split(":")[-1].split("x"), []
        for size in map(int, sizes):
            out.append(str(node % size))
            node //= size
        return ",".join(out)

    def __repr__(self) -> str:
        pes = len(self["placement"])
        return f"<angara.Report: {self.get('name')}, {pes} PEs on {self.get('shape')}, {len(self['links'])} links>"

    def _repr_html_(self) -> str:
        try:
            page = self.html()
        except (_command.RunError, OSError, ValueError):
            return small_table(self.to_dicts())
        style = "width: 100%; height: 600px; border: 0"
        return f'<iframe srcdoc="{_html.escape(page)}" style="{style}"></iframe>'


class Trace:
    """A timeline of ``angara.run``: every call of the library, by PE."""

    def __init__(self, path: FilePath, keep: object = None) -> None:
        self.path = pathlib.Path(path)
        """The file, which Perfetto and chrome://tracing show."""
        self._keep = keep
        if not self.path.is_file():
            raise FileNotFoundError(f"{path}: there is no such file; `angara.run(..., trace={str(path)!r})` writes one")

    @property
    def events(self) -> List[Dict[str, Any]]:
        """All events, in the trace event format. Their times (``ts``, ``dur``) are microseconds."""
        found = _read(self.path, "timeline of `angara run --trace`")
        return [event for event in (found["traceEvents"] if isinstance(found, dict) else found) if event]

    @property
    def text(self) -> str:
        """As ``angara trace summary`` prints it: where the time went."""
        return _ask(["trace", "summary", str(self.path)], "angara trace summary")

    def to_frame(self) -> pandas.DataFrame:
        """The time of each routine on each PE, with the columns of ``angara trace summary --csv``. Needs pandas."""
        import io

        rows = _ask(["trace", "summary", "--csv", str(self.path)], "angara trace summary")
        frame([])
        import pandas

        return pandas.read_csv(io.StringIO(rows))

    def __repr__(self) -> str:
        return f"<angara.Trace: {self.path}>"


def report(path: FilePath) -> Report:
    """Reads a report, compressed or not: one of ``angara.run(..., report=path)`` or ``angara run --report``."""
    return Report(path)


def trace(path: FilePath) -> Trace:
    """Opens a timeline, compressed or not: one of ``angara.run(..., trace=path)`` or ``angara run --trace``."""
    return Trace(path)
