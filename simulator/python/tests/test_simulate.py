"""Single simulations."""

import signal
import threading
import time

import numpy as np
import pytest

import angara

SMALL = dict(topology="torus:4x4", router="generic", load=0.3, warmup=200, cycles=1000)


def test_fields_are_attributes_and_items():
    outcome = angara.simulate(**SMALL)
    assert outcome.packet_latency_cycles == outcome["packet_latency_cycles"] > 0
    assert outcome.packet_latency_ns == pytest.approx(outcome.packet_latency_cycles * outcome.cycle_ps / 1000)
    assert outcome.accepted_flits_per_node_cycle == pytest.approx(0.3, rel=0.1)
    assert outcome.settings["topology"] == "torus:4x4" and "saturated" in outcome
    assert outcome.to_dict()["measured_cycles"] == 1000
    assert str(outcome).startswith("torus:4x4 · router generic") and "torus:4x4" in repr(outcome)
    with pytest.raises(AttributeError, match="no field latency; there are"):
        outcome.latency


def test_the_same_seed_gives_the_same_numbers_on_any_number_of_threads():
    def numbers(**more):
        fields = angara.simulate(**SMALL, **more).to_dict()
        return {name: fields[name] for name in ("packet_latency_cycles", "packets", "flit_hops")}

    assert numbers() == numbers() == numbers(threads=2)
    assert numbers() != numbers(seed=2)


def test_the_histogram_has_all_messages():
    outcome = angara.simulate(**SMALL)
    histogram = outcome.histogram
    assert histogram["messages"].sum() == outcome.packets
    assert (histogram["low_cycles"] <= histogram["high_cycles"]).all()
    mean = np.average(histogram["low_cycles"], weights=histogram["messages"])
    assert mean == pytest.approx(outcome.packet_latency_cycles, abs=1)


def test_links_are_counted_if_asked():
    assert angara.simulate(**SMALL).link_loads is None
    outcome = angara.simulate(**SMALL, count_links=True)
    loads = outcome.link_loads
    between = loads["flits_per_cycle"][~loads["to_endpoint"]]
    assert len(between) == 16 * 4 and loads["name"][0] == "(0,0) +X"
    assert between.mean() == pytest.approx(outcome.links["mean_flits_per_cycle"])
    with pytest.raises(ValueError, match="count_links is True: this workload"):
        angara.simulate(topology="torus:4x4", workload="allreduce:8,trees", count_links=True)


def test_names_may_have_dashes_or_underscores_and_numbers_come_from_numpy():
    one = angara.simulate(**{**SMALL, "cycle-ns": np.float32(4), "seed": np.int64(3)})
    two = angara.simulate(**SMALL, cycle_ns=4, seed=3, vcs=None)
    assert one.cycle_ps == 4000 and one.packet_latency_cycles == two.packet_latency_cycles


def test_presets_and_workloads():
    assert "booksim-torus" in angara.presets() and any(w.startswith("all-to-all") for w in angara.workloads())
    outcome = angara.simulate(preset="desmos", workload="all-to-all:256")
    assert outcome.time_ns > 0 and outcome.settings["topology"] == "torus:4x2x2x2"
    outcome = angara.simulate(topology="torus:4x4", workload="allreduce:8,trees", fault=["link 0,0 +X corrupt=1%"])
    assert outcome.time_ns > 0


def test_jobs_have_a_histogram_each(tmp_path):
    job = '[[job]]\nname = "{}"\nnodes = "{}"\nload = 0.1\nlength = 1\n'
    file = tmp_path / "jobs.toml"
    file.write_text(job.format("one", "0..8") + job.format("two", "8..16"))
    outcome = angara.simulate(topology="torus:4x4", workload=f"jobs:{file}", warmup=100, cycles=500)
    assert list(outcome.histograms) == ["one", "two"]
    assert outcome.histograms["one"]["messages"].sum() == outcome.jobs["one"]["packets"]
    with pytest.raises(ValueError, match="histograms has those of jobs"):
        outcome.histogram


def test_ways_of_packets():
    outcome = angara.simulate(**SMALL, trace="0->5")
    (way,) = outcome.trace
    assert (way["from"], way["to"]) == (0, 5) and way["events"][-1]["stage"] == "Delivered"


def test_arrays_are_traffic():
    rates = np.zeros((16, 16))
    rates[0, 5] = rates[3, 9] = 0.1
    outcome = angara.simulate(**{**SMALL, "load": 0.02}, pattern=rates, count_links=True)
    loads = outcome.link_loads
    ends = loads["router"][loads["to_endpoint"] & (loads["flits"] > 0)]
    assert sorted(ends) == [5, 9]
    outcome = angara.simulate(**SMALL, rates=np.arange(16), pattern="neighbor")
    assert outcome.packets > 0
    with pytest.raises(ValueError, match=r"pattern is an array of shape \(16, 3\): give a row of rates"):
        angara.simulate(**SMALL, pattern=rates[:, :3])
    outcome = angara.simulate(**SMALL, pattern=np.ones((16, 16)))
    assert outcome.settings["pattern"] == "pattern" and "matrix:" not in str(outcome)
    with pytest.raises(ValueError, match="rates, element 2, is -1.0: give a finite rate"):
        angara.simulate(**SMALL, rates=[1, 1, -1] + [1] * 13)


@pytest.mark.parametrize(
    "settings, text",
    [
        (dict(load=19.0), "here of 18 flits: give a load from 0 to 18"),
        (dict(load="much"), "load: `much`: give a number such as 0.3"),
        (dict(topology="torus:8y8"), "topology `torus:8y8`"),
        (dict(lode=0.1), "lode is no setting: did you mean load?"),
        (dict(router="generic", vcs=3), "vcs = 3 on torus:8x8x8: rings need the dateline rule"),
        (dict(pattern="hotspot:512,0.1"), "the last one is 511"),
        (dict(preset="desmo"), "there are desmos, angara-k1"),
        (dict(router="generic", load=0.1, cycles_max="x"), "cycles_max"),
        (dict(fault=[1]), "text, or a list of texts"),
        (dict(load=float("nan")), "not JSON compliant"),
        (dict(pattern="matrix:none.txt"), "none.txt"),
    ],
)
def test_mistakes_are_named_with_a_remedy(settings, text):
    with pytest.raises(ValueError) as caught:
        angara.simulate(**settings)
    assert text in str(caught.value)
    assert "cycles-max" not in str(caught.value) and "--" not in str(caught.value)


def endless():
    return dict(topology="torus:8x8x8", router="generic", load=0.3, precision=1e-9, cycles_max=10**12)


@pytest.mark.parametrize("run", [lambda: angara.simulate(**endless()), lambda: angara.sweep(endless(), seed=[1, 2, 3])])
def test_ctrl_c_ends_a_run(run):
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    # The main thread gets the signal, whoever raises it.
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - started < 60, "the limit only says that it does not go on for ever"


def test_progress_is_told_and_may_end_a_run():
    seen = []

    def progress(doing, done, of):
        seen.append((doing, done, of))
        if len(seen) == 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        angara.simulate(**endless(), progress=progress)
    assert len(seen) == 3 and all(isinstance(doing, str) and done <= of for doing, done, of in seen)


def test_other_threads_run_meanwhile():
    count = 0
    end = threading.Event()

    def work():
        nonlocal count
        while not end.is_set():
            count += 1
            end.wait(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    before = count
    angara.simulate(topology="torus:8x8", router="generic", load=0.3, warmup=1000, cycles=20000)
    during = count - before
    end.set()
    thread.join()
    assert during > 10
