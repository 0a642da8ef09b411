"""Sweeps."""

import numpy as np
import pytest

import angara

BASE = dict(topology="torus:4x4", router="generic", warmup=200, cycles=500)


def test_all_combinations_in_order():
    result = angara.sweep(BASE, load=[0.1, 0.2], pattern=["uniform", "tornado"])
    assert result.names == ["pattern", "load"] and len(result) == 4
    assert [tuple(point.swept.values()) for point in result] == [
        ("uniform", 0.1),
        ("uniform", 0.2),
        ("tornado", 0.1),
        ("tornado", 0.2),
    ]
    assert result[1].packet_latency_cycles > result[0].packet_latency_cycles
    assert "packet_latency_cycles" in str(result) and "4 points of pattern, load" in repr(result)


def test_points_are_those_of_single_runs():
    result = angara.sweep(BASE, load=np.array([0.1, 0.3]))
    alone = angara.simulate(**BASE, load=0.3)
    assert result[-1].packet_latency_cycles == alone.packet_latency_cycles


def test_threads_do_not_change_results():
    rows = [angara.sweep(BASE, threads=n, seed=range(1, 6)).to_dicts() for n in (1, 3)]
    assert rows[0] == rows[1] and len(rows[0]) == 5


def test_columns_and_dicts():
    result = angara.sweep(BASE, load=[0.0, 0.2])
    assert result.column("load").tolist() == [0.0, 0.2]
    latency = result.column("packet_latency_cycles")
    assert np.isnan(latency[0]) and latency[1] > 0
    assert result.to_dicts()[1]["latency_percentiles_cycles.p50"] > 0
    with pytest.raises(ValueError, match="column is latency: there are load"):
        result.column("latency")


def test_frames():
    pytest.importorskip("pandas")
    frame = angara.sweep(BASE, cycle_ns=[1, 2], topology=["torus:4x4", "mesh:4x4"]).to_frame()
    assert len(frame) == 4 and set(frame["topology"]) == {"torus:4x4", "mesh:4x4"}
    assert (frame["packet_latency_ns"] > 0).all()


def test_programs_and_arrays_are_swept():
    result = angara.sweep(dict(topology="torus:4x2"), workload=["all-to-all:64", "all-to-all:128"])
    times = result.column("time_ns")
    assert times[0] < times[1]
    one = np.ones((16, 16))
    result = angara.sweep(BASE, pattern=[one, one - np.eye(16)])
    assert result.column("pattern").tolist() == ["pattern[0]", "pattern[1]"]
    assert [point.settings["pattern"] for point in result] == ["pattern[0]", "pattern[1]"]
    assert "pattern[1]" in str(result) and "matrix:" not in str(result)
    mixed = angara.sweep(BASE, pattern=["uniform", one])
    assert mixed.column("pattern").tolist() == ["uniform", "pattern[1]"]
    rated = angara.sweep(BASE, rates=[np.arange(16), np.ones(16)])
    assert rated.column("rates").tolist() == ["rates[0]", "rates[1]"]


def with_one(value, at):
    rates = np.ones((16, 16))
    rates[at] = value
    return rates


@pytest.mark.parametrize(
    "array, text",
    [
        (with_one(-1, (3, 5)), "pattern[1], row 3, column 5, is -1.0: give a finite rate of at least 0"),
        (with_one(np.nan, (0, 15)), "pattern[1], row 0, column 15, is nan: give"),
        (with_one(1e308, 7), "pattern[1], row 7, has no finite sum: give smaller rates"),
        (np.zeros((16, 16)), "pattern[1] has no rate above 0"),
        (np.ones((16, 3)), "pattern[1] is an array of shape (16, 3): give a row of rates"),
        ([[1, 2], [3]], "pattern[1] is no array of numbers"),
        (np.ones((3, 3)), "pattern[1]"),
    ],
)
def test_mistakes_of_arrays_name_row_and_column(array, text):
    with pytest.raises(ValueError) as caught:
        angara.sweep(BASE, pattern=["uniform", array])
    assert text in str(caught.value) and "/" not in str(caught.value)


def test_lists_of_lists():
    faults = [["link 0,0 +X down"], ["link 0,0 +X down", "link 1,1 +Y down"]]
    result = angara.sweep(dict(topology="torus:4x4", warmup=100, cycles=500), fault=faults)
    assert len(result) == 2 and result[1].settings["fault"] == faults[1]


@pytest.mark.parametrize(
    "lists, text",
    [
        (dict(load=[0.1, "much"]), "load: `much`: give a number"),
        (dict(lode=[1]), "lode is no setting to sweep: did you mean load?"),
        (dict(load=[]), "number of points is 0"),
        (dict(load=[0.1, 99]), "load is 99: a node creates at most one message per cycle"),
    ],
)
def test_mistakes_are_named_with_a_remedy(lists, text):
    with pytest.raises(ValueError) as caught:
        angara.sweep(BASE, **lists)
    assert text in str(caught.value)
    with pytest.raises(ValueError, match="threads is 0: give at least 1"):
        angara.sweep(BASE, threads=0, load=[0.1])


def test_progress_counts_points():
    angara.sweep(BASE, load=[0.1, 0.2], progress=lambda doing, done, of: (doing, of) == ("points", 2) or 1 / 0)
