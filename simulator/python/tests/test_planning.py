"""What to expect of programs and networks."""

import pytest

import angara


@pytest.fixture(scope="module")
def table(halo):
    return angara.whatif(halo, [2, 10], n=[2, 4], set="link=15GB/s")


@pytest.fixture
def commands():
    try:
        angara.command()
    except FileNotFoundError as e:
        pytest.skip(str(e))


def test_all_combinations(table):
    assert len(table) == 4 and [row["n"] for row in table] == [2, 4, 2, 4]
    assert table[0]["speed_up"] == 1 and all(row["time_ns"] > 0 for row in table)
    assert "speed-up" in table.text and "<svg" in table.svg and "<table>" in table._repr_html_()
    pytest.importorskip("pandas")
    assert list(table.to_frame()["n"]) == [2, 4, 2, 4]


def test_combinations_that_fail(halo):
    with pytest.raises(angara.RunError, match="unknown machine `desmo`") as caught:
        angara.whatif(halo, n=2, machine="desmo")
    assert caught.value.result[0]["exit_code"] == 2
    assert len(angara.whatif("false", n=[1, 2], check=False)) == 2
    with pytest.raises(ValueError, match="tori is no option of angara whatif: did you mean torus?"):
        angara.whatif(halo, tori="2x2")
    with pytest.raises(ValueError, match="x2") as caught:
        angara.whatif(halo, n="x2")
    assert "--" not in str(caught.value)


def test_plans(commands):
    tree = angara.plan("tree", torus=(4, 4), member=["0,0", "2,1"])
    assert tree["participants"] == 2 and tree["broadcast_ns"] > 0
    barrier = angara.plan("barrier", dims=[2, 3], sizes=4)
    assert "<svg" in barrier.svg and barrier._repr_html_() == barrier.svg
    assert {row["dim"] for row in barrier["rows"]} == {2, 3}
    assert angara.plan("routes", topology="dragonfly:2", pattern="bad-dragon")
    pytest.importorskip("pandas")
    assert len(tree.to_frame()) == 2 or len(tree.to_frame()) > 2
    with pytest.raises(ValueError, match="table is 'row': did you mean rows?"):
        tree.to_frame("row")


def test_node_sets(commands):
    assert len(angara.alloc("set", torus="4x4", nodes=3)["nodes"]) == 3
    queue = angara.alloc("simulate", torus="4x4", lublin=50, policy=["closed", "utilisation"])
    assert [row["policy"] for row in queue["rows"]] == ["closed", "utilisation"]


def test_traffic_of_a_job_places_it(halo, tmp_path):
    report = angara.run(halo, [2, 10], n=4).report
    placed = angara.alloc("map", torus="4x2", traffic=report.path)
    assert [one["placement"] for one in placed["placements"]][-1] == "auto"


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: angara.plan("tre"), "what is 'tre': did you mean tree?"),
        (lambda: angara.plan("tree", tors="2x2"), "tors is no option of angara plan tree: did you mean torus?"),
        (lambda: angara.plan("tree", torus="2x2", root="9,9"), "coordinates `9,9` are not in 2x2"),
        (lambda: angara.alloc("set", torus="4x4"), "required arguments were not provided"),
        (lambda: angara.alloc("set", torus="2x2", nodes=9), "a set of 9 nodes in 2x2, of which 4 nodes work"),
        (lambda: angara.alloc("slurm", cluster="none.toml", once=True), "none.toml"),
    ],
)
def test_mistakes_are_named_with_a_remedy(commands, call, text):
    with pytest.raises(ValueError) as caught:
        call()
    assert text in str(caught.value) and "--" not in str(caught.value)
