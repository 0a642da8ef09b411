"""Jobs, and what they leave."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import angara


@pytest.fixture(scope="module")
def job(halo):
    return angara.run(halo, [3, 100], n=4, machine="desmos", trace=True)


def test_a_job_in_virtual_time(job, halo):
    assert job.ok and job.status == 0 and job.output == "halo: 4 PEs, 3 steps, last change 0.148148\n"
    assert 0 < job.times["virtual_s"] < 1e-3 < job.times["wall_s"]
    assert job.report["options"]["pes"] == 4 and job.report["shape"] == "4x2x2x2"
    again = angara.run(str(halo), ["3", "100"], 4)
    assert again.times["virtual_s"] == job.times["virtual_s"] and again.trace is None
    assert "virtual_s" in repr(job) and str(job) == job.output


def test_a_job_on_the_wall(halo):
    job = angara.run(halo, [3, 100], n=2, machine=None, clock="wall", quiet=True)
    assert list(job.times) == ["wall_s"] and job.report["shape"] == "2" and job.errors == ""
    assert set(job.report.to_dicts()[0]) == {"pe", "node", "sent_bytes", "received_bytes"}


def test_a_report_has_tables(job):
    rows = job.report.to_dicts()
    assert [row["pe"] for row in rows] == [0, 1, 2, 3] and rows[0]["end_ps"] > 0
    csv = subprocess.run(
        [angara.command(), "report", "--csv", "pes", job.report.path], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()
    names = csv[0].split(",")
    for row, line in zip(rows, csv[1:]):
        assert [row[name] for name in names] == [int(cell) for cell in line.split(",")]
    matrix = job.report.matrix()
    # Three steps to either neighbour, 800 bytes each; the barrier and the reduction send none of a program's.
    assert matrix[1][2] >= 2400 and sum(map(sum, matrix)) == sum(row["sent_bytes"] for row in rows)
    assert sum(row["received_bytes"] for row in rows) == sum(row["sent_bytes"] for row in rows)
    with pytest.raises(ValueError, match="what is 'byte': did you mean bytes?"):
        job.report.matrix("byte")
    assert "Placement" in job.report.text and "4 PEs on 4x2x2x2" in repr(job.report)


def test_a_report_has_frames(job):
    pytest.importorskip("pandas")
    assert len(job.report.to_frame()) == 4
    links = job.report.links_frame()
    assert links["flits"].sum() > 0 and links["link"][0] == "0,0,0,0 +X"
    assert (links["put_flits"] <= links["flits"]).all()
    matrix = job.report.matrix_frame("packets")
    assert matrix.shape == (4, 4) and matrix.columns.name == "packets_to_pe"
    assert {"routine", "pe", "time_ns"} <= set(job.trace.to_frame())


def test_without_pandas_the_remedy_is_named(job, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        job.report.to_frame()


def test_a_timeline(job):
    assert any(event.get("name") == "shmem_barrier_all" for event in job.trace.events)
    assert "shmem_barrier_all" in job.trace.text


def test_notebooks_show_the_network(job):
    shown = job._repr_html_()
    assert "<iframe srcdoc=" in shown and "last change" in shown
    assert "<script" in job.report.html()


def test_files_are_kept_and_read_again(halo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = angara.run(halo, [1, 1], n=2, report="r.json", trace="t.json.gz")
    assert angara.report("r.json") == job.report and angara.trace(tmp_path / "t.json.gz").events == job.trace.events
    temporary = angara.run(halo, [1, 1], n=2).report
    folder = temporary.path.parent
    assert folder.is_dir()
    del temporary
    assert not folder.exists()
    (tmp_path / "other.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="other.json is no report"):
        angara.report("other.json")
    with pytest.raises(FileNotFoundError, match="none.json"):
        angara.report("none.json")
    with pytest.raises(FileNotFoundError, match="none.json"):
        angara.trace("none.json")


def test_lines_are_handed_on(halo, capsys):
    seen = []
    angara.run(halo, [1, 1], n=2, stream=lambda name, line: seen.append((name, line)))
    assert ("output", "halo: 2 PEs, 1 steps, last change 0.666667\n") in seen
    angara.run(halo, [1, 1], n=2, stream=True)
    assert "halo: 2 PEs" in capsys.readouterr().out


def test_input_variables_and_directory(tmp_path):
    options = dict(n=1, clock="wall", report=False)
    job = angara.run("sh", ["-c", "cat; echo $WHAT; pwd"], input="given\n", env={"WHAT": 7}, cwd=tmp_path, **options)
    assert job.report is None and job.output.split() == ["given", "7", os.path.realpath(tmp_path)]


def test_a_job_that_fails():
    with pytest.raises(angara.RunError, match="sh ended with status 2\n(.|\n)*exited with code 2") as caught:
        angara.run("sh", ["-c", "echo here; echo there >&2; exit 2"], n=1, clock="wall")
    error = caught.value
    assert error.status == 2 and error.output == "here\n" and "there\n" in error.errors
    assert error.result.report["exit_code"] == 2
    job = angara.run("false", n=1, check=False)
    assert not job.ok and job.status == 1 and job.report["exit_code"] == 1
    job = angara.run("sleep", [100], n=1, clock="wall", timeout=0.5, check=False)
    assert job.status == 124
    assert angara.run("./none", check=False).status == 127
    with pytest.raises(angara.RunError, match="nothing has used the network"):
        angara.run("true", n=1)
    with pytest.raises(angara.RunError, match="status 2"):
        angara.run("sh", ["-c", "exit 2"], n=1, clock="wall", report=False)


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(barrier="foo"), "invalid value 'foo' for barrier: use auto, multiphase"),
        (dict(n=400), "400 PEs do not fit 4x2x2x2: 32 nodes with at most 1 PE each\n  give ppn 13"),
        (dict(clock="wall", call_cost=3), "call_cost is for virtual time\n  add clock virtual"),
        (dict(cloc="wall"), "cloc is no option of angara run: did you mean clock?"),
        (dict(args="3"), "args is '3': give a list"),
        (dict(stream="yes"), "stream is 'yes': give True, False or a function"),
        (dict(machine="desmo"), "unknown machine `desmo`"),
    ],
)
def test_mistakes_are_named_with_a_remedy(options, text):
    with pytest.raises(ValueError) as caught:
        angara.run("true", **options)
    assert text in str(caught.value) and "--" not in str(caught.value)


def processes(mark):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            pass
    return found


@pytest.mark.parametrize("how", ["ctrl-c", "listener"])
def test_what_ends_a_job_ends_its_processes(how):
    mark = f"ANGARA_TEST_MARK={os.getpid()}-{how}"
    name, value = mark.split("=")
    options = dict(n=3, clock="wall", env={name: value})
    if how == "ctrl-c":
        timer = threading.Timer(1, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            angara.run("sleep", [1000], **options)
        timer.join()
    else:
        with pytest.raises(ZeroDivisionError):
            angara.run("sh", ["-c", "echo; exec sleep 1000"], stream=lambda *_: 1 / 0, **options)
    until = time.monotonic() + 30
    while processes(mark) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes(mark) == []


def test_the_command_is_found_or_missed_by_name(monkeypatch, tmp_path):
    monkeypatch.setenv("ANGARA", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="ANGARA is .*none, which is no program: set it"):
        angara.run("true")
    monkeypatch.delenv("ANGARA")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("angara._command.places", lambda program: iter(()))
    with pytest.raises(FileNotFoundError, match="no command angara .* install the wheel"):
        angara.plan("tree", torus="2x2")
    (tmp_path / "angara").write_text("#!/bin/sh\n")
    (tmp_path / "angara").chmod(0o755)
    assert angara.command() == tmp_path / "angara"


class Notebook:
    """As much of a display of IPython as is used."""

    def __init__(self):
        self.told = []

    def display(self, data, **_):
        self.told.append(data["text/plain"])
        return self

    def update(self, data, **_):
        self.told.append(data["text/plain"])


def test_notebooks_have_a_line_of_progress(monkeypatch):
    notebook = Notebook()
    monkeypatch.setattr("angara._job._in_a_notebook", lambda: True)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    angara.run("sleep", [1.5], n=1, clock="wall", report=False)
    assert len(notebook.told) >= 2 and "s, " in notebook.told[0]
    assert "sleep: 1 PEs: ended after" in notebook.told[-1] and "status 0" in notebook.told[-1]
