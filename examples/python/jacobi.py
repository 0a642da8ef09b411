"""A heated wire on any number of PEs, in Python: halo exchange by put, convergence by a reduction.

    pip install "numpy<2" shmem4py          # with `oshcc` in PATH, which it is built with
    angara run -n 4 python3 examples/python/jacobi.py [CELLS_PER_PE]

Each PE owns a piece of the wire with one ghost cell at either end. A PE puts its border cells into
its neighbours' ghost cells, a barrier later everybody averages, and every 100 steps all PEs add up how
much has changed. The ends of the wire are kept at 1 and 0 degrees, so the result is a straight line.
"""

import sys

import numpy as np
from shmem4py import shmem


def main():
    me, pes = shmem.my_pe(), shmem.n_pes()
    cells = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    wire = shmem.zeros(cells + 2, dtype="d")
    change, total = shmem.zeros(1, dtype="d"), shmem.zeros(1, dtype="d")
    if me == 0:
        wire[0] = 1.0
    shmem.barrier_all()

    steps = 0
    while True:
        if me > 0:
            shmem.put(wire[cells + 1 : cells + 2], wire[1:2], me - 1)
        if me < pes - 1:
            shmem.put(wire[0:1], wire[cells : cells + 1], me + 1)
        shmem.barrier_all()
        inner = (wire[:-2] + wire[2:]) / 2
        change[0] = np.abs(inner - wire[1:-1]).sum()
        # Nobody may put new borders before everybody has read the old ones.
        shmem.barrier_all()
        wire[1:-1] = inner
        steps += 1
        if steps % 100 == 0:
            shmem.sum_reduce(total, change)
            if total[0] < 1e-9:
                break

    first = me * cells + 1
    exact = 1 - np.arange(first, first + cells) / (pes * cells + 1)
    error = np.abs(wire[1:-1] - exact).max()
    assert error < 1e-6, f"PE {me}: off by {error}"
    shmem.barrier_all()
    if me == 0:
        print(f"{pes} PEs, {pes * cells} cells, {steps} steps: a straight line, off by {error:.1e}")


main()
