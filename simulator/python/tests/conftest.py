"""What tests of jobs need: the commands, and a compiled program."""

import pathlib
import shutil
import subprocess

import pytest

import angara

EXAMPLES = pathlib.Path(angara.__file__).with_name("examples")


@pytest.fixture(scope="session")
def compiler():
    try:
        oshcc = angara.command().with_name("oshcc")
    except FileNotFoundError as e:
        pytest.skip(str(e))
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    return oshcc


@pytest.fixture(scope="session")
def halo(compiler, tmp_path_factory):
    """The example, compiled."""
    program = tmp_path_factory.mktemp("halo") / "halo"
    subprocess.run([compiler, EXAMPLES / "halo.c", "-o", program], check=True)
    return program
