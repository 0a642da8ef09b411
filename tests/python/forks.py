"""A Python program on the library through ctypes: os.fork and multiprocessing after init must
leave the parent's memory alone. Argument: path of libsma.so."""
import ctypes
import multiprocessing
import os
import subprocess
import sys

lib = ctypes.CDLL(sys.argv[1])
lib.shmem_malloc.restype = ctypes.c_void_p
lib.shmem_malloc.argtypes = [ctypes.c_size_t]
lib.shmem_long_p.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
lib.shmem_long_g.argtypes = [ctypes.c_void_p, ctypes.c_int]
lib.shmem_long_g.restype = ctypes.c_long


def square(x):
    return x * x


lib.shmem_init()
me, n = lib.shmem_my_pe(), lib.shmem_n_pes()
cell = lib.shmem_malloc(16)
word = ctypes.cast(cell, ctypes.POINTER(ctypes.c_long))
word[0], word[1] = 100 + me, 0
numbers = list(range(10000))
lib.shmem_barrier_all()

child = os.fork()
if child == 0:
    numbers[:] = [0] * len(numbers)
    os._exit(0 if sum(numbers) == 0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert numbers == list(range(10000)), "os.fork changed the parent's objects"

context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    assert pool.map(square, range(100)) == [x * x for x in range(100)]
assert subprocess.run(["echo", "hello"], capture_output=True).stdout == b"hello\n"

assert word[0] == 100 + me, "the symmetric heap changed"
lib.shmem_long_p(cell + 8, 500 + me, (me + 1) % n)
lib.shmem_barrier_all()
assert word[1] == 500 + (me - 1) % n, "a put after fork did not arrive"
assert lib.shmem_long_g(cell, (me + 1) % n) == 100 + (me + 1) % n
lib.shmem_barrier_all()
if me == 0:
    print("python done", flush=True)
lib.shmem_finalize()
