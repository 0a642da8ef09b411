"""Angara for Spack, from a checkout; nothing is published that could be downloaded.

    spack repo create ~/recipes angara
    mkdir -p ~/recipes/spack_repo/angara/packages/angara
    ln -s $PWD/packaging/spack/package.py ~/recipes/spack_repo/angara/packages/angara
    spack repo add ~/recipes/spack_repo/angara
    spack install --test=root angara

It builds what is committed on the branch `main`. Cargo downloads the libraries that the lock file
names, so the machine that builds needs a network, or a Cargo registry of its own.
"""

import os

from spack.package import *
from spack_repo.builtin.build_systems.generic import Package


class Angara(Package):
    """The network of supercomputers with Angara's chip in software: unmodified OpenSHMEM and MPI
    programs run on an emulated torus of one to four dimensions."""

    # Where the link to this file leads.
    git = "file://" + os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

    license("Apache-2.0 OR MIT")

    version("main", branch="main")

    # `oshcc` calls whatever C compiler its user has.
    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")

    conflicts("platform=darwin", msg="it is for Linux")
    conflicts("platform=windows", msg="it is for Linux")

    phases = ["build", "install"]

    def build(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", "-j", str(make_jobs))

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("xtask", "install", "--prefix", prefix, "--from", join_path("target", "release"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def try_a_program(self):
        """A program is compiled and runs on four PEs, its packets through emulated links."""
        examples = join_path(self.prefix.share, "angara", "examples", "c")
        with working_dir(join_path(self.stage.path, "try"), create=True):
            oshcc = Executable(self.prefix.bin.oshcc)
            oshcc("-O2", join_path(examples, "heat2d.c"), "-o", "heat2d", "-lm")
            angara = Executable(self.prefix.bin.angara)
            angara("run", "-n", "4", "--path", "ring", "./heat2d")
