"""What stub files, documents and the notebook say is true."""

import ast
import json
import pathlib

import pytest

import angara

HERE = pathlib.Path(__file__).resolve().parent.parent


def test_the_stubs_have_all_settings():
    tree = ast.parse((HERE / "angara/_settings.pyi").read_text())
    classes = {node.name: [line.target.id for line in node.body] for node in tree.body if isinstance(node, ast.ClassDef)}
    assert classes["Settings"] == angara.settings()
    assert classes["Lists"] == [name for name in angara.settings() if name != "threads"]


def test_the_compiled_module_is_as_its_stub_says():
    from angara import _angara

    tree = ast.parse((HERE / "angara/_angara.pyi").read_text())
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert functions == {name for name in dir(_angara) if callable(getattr(_angara, name)) and name[0] != "_"}


def python_blocks(page):
    parts = page.read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.mark.parametrize("page", ["README.md", "../../docs/guide/simulator.md"])
def test_examples_of_documents_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(HERE / page)
    assert blocks
    names = {}
    for block in blocks:
        if "to_frame" in block:
            pytest.importorskip("pandas")
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("notebook", sorted((HERE / "examples").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_run(notebook):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    cells = json.loads(notebook.read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
