# What the system's random numbers decide in Python.
import random
import secrets

print(hash("a text"), random.random(), secrets.token_hex(4), [*{"a", "b", "c", "d"}])
