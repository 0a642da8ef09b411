"""Each PE puts its number into an array of the next PE."""

import numpy as np
from shmem4py import shmem

me, pes = shmem.my_pe(), shmem.n_pes()
heard = shmem.zeros(1, dtype="i")  # symmetric: every PE has one, and others may write it
shmem.barrier_all()
shmem.put(heard, np.array([me], dtype="i"), (me + 1) % pes)
shmem.barrier_all()
print(f"PE {me} of {pes} has heard from PE {heard[0]}")
assert heard[0] == (me - 1) % pes
