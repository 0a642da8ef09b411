"""Programs on an emulated torus, and simulations of interconnection networks, from Python.

:func:`run` runs a program as ``angara run`` does, in virtual time::

    import angara
    job = angara.run("./heat2d", n=32)
    job.times["virtual_s"], job.report.to_frame()

:func:`whatif` runs it under every combination of networks, :func:`plan` and :func:`alloc` plan, :func:`report` and
:func:`trace` read what jobs have written. :func:`simulate` and :func:`sweep` simulate networks, as ``angara sim run``
and ``angara sim sweep`` do::

    outcome = angara.simulate(topology="torus:8x8", router="generic", load=0.3)
    outcome.packet_latency_cycles

Options and settings are keyword arguments with the names of the commands', underscores for dashes. Names of results end
with their unit: ``_cycles`` (router cycles), ``_ns``, ``_ps``, ``_s``, ``_bytes``, ``_flits_per_node_cycle`` (flits per
node and cycle).
"""

from typing import List

from ._angara import __version__
from ._command import RunError, command
from ._job import Run, run
from ._planning import Answer, WhatIf, alloc, plan, whatif
from ._report import Report, Trace, report, trace
from ._simulate import Outcome, Sweep, presets, settings, simulate, sweep, workloads

__all__ = [
    "Answer",
    "Outcome",
    "Report",
    "Run",
    "RunError",
    "Sweep",
    "Trace",
    "WhatIf",
    "alloc",
    "command",
    "plan",
    "presets",
    "report",
    "run",
    "settings",
    "simulate",
    "sweep",
    "trace",
    "whatif",
    "workloads",
]


def __dir__() -> "List[str]":
    return [*__all__, "__all__", "__doc__", "__name__", "__version__"]


for _name in __all__:
    # So that help and messages say angara.run, not where it is written.
    globals()[_name].__module__ = "angara"
del _name
