"""What stub files, documents and the notebook say is true."""

import ast
import json
import pathlib
import pydoc
import shutil
import subprocess
import sys

import pytest

import angara

HERE = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = pathlib.Path(angara.__file__).with_name("examples")


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


def test_only_what_is_public_is_listed():
    public = [name for name in dir(angara) if name[0] != "_"]
    assert public == angara.__all__ == sorted(angara.__all__)
    assert all(getattr(angara, name).__doc__ for name in public)


def test_help_has_all_settings_and_options():
    def shown(function):
        return " ".join(pydoc.render_doc(function, renderer=pydoc.plaintext).split())

    settings = shown(angara.simulate)
    assert all(f" {name}: " in settings for name in angara.settings())
    assert "load: Offered flits per node and cycle [default: 0.1]" in settings
    assert "link_ns: Flight time of a link, ns (angara) [default: 80]" in settings
    assert "torus:8x8x8" in settings and "--" not in settings
    assert "    threads: " not in angara.sweep.__doc__ and "    load: " in angara.sweep.__doc__
    options = shown(angara.run)
    assert all(f" {name}: " in options for name in ("pes_as", "call_cost", "fault"))
    assert "call_cost: With clock virtual: nanoseconds that a call of the library takes [default: 1" in options
    for function in (angara.whatif, angara.plan, angara.alloc):
        assert "    torus: " in function.__doc__


def test_the_examples_are_copied(tmp_path):
    def copy():
        command = [sys.executable, "-m", "angara", "examples", str(tmp_path / "to")]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    done = copy()
    assert done.returncode == 0 and len(done.stdout.splitlines()) == len(list(EXAMPLES.iterdir()))
    for path in EXAMPLES.iterdir():
        assert (tmp_path / "to" / path.name).read_bytes() == path.read_bytes()
    done = copy()
    assert done.returncode == 1 and "is there already: give another directory" in done.stderr


def python_blocks(page):
    parts = page.read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


@pytest.mark.parametrize("page", ["README.md", "../../docs/guide/simulator.md"])
def test_examples_of_documents_run(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = python_blocks(HERE / page)
    assert blocks
    names = {}
    for block in blocks:
        if "frame()" in block:
            pytest.importorskip("pandas")
        if "./halo" in block:
            shutil.copy(request.getfixturevalue("halo"), tmp_path)
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("notebook", sorted(EXAMPLES.glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run(notebook, request, tmp_path, monkeypatch):
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    if "oshcc" in code[0]:
        request.getfixturevalue("compiler")
        pytest.importorskip("pandas")
    if code[0].startswith("import matplotlib"):
        pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    for path in EXAMPLES.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {}
    for text in code:
        exec(compile(text, notebook.name, "exec"), names)
