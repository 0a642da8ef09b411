"""Types of all settings. A test compares the names with those of the simulator."""

import os
from typing import Iterable, Literal, Sequence, TypedDict, Union

from numpy.typing import ArrayLike

class Settings(TypedDict, total=False):
    machine: Union[str, os.PathLike[str]]
    set: Union[str, Sequence[str]]
    topology: str
    router: Literal["angara", "generic"]
    vcs: int
    switching: Literal["cut-through", "wormhole"]
    hold_switch: bool
    buffer: int
    deadlock: Literal["bubble", "dateline"]
    routing: Literal["dor", "adaptive", "nca", "minimal", "valiant", "ugal", "ugal-g", "par", "updown", "west-first", "odd-even"]
    ugal_threshold: int
    workload: str
    length: Union[int, str]
    load: float
    pattern: Union[str, ArrayLike]
    rates: Union[str, ArrayLike]
    process: str
    map: Literal["linear", "random", "hilbert", "morton"]
    probe: str
    fault: Union[str, Sequence[str]]
    error_rate: str
    trace: Union[int, str]
    seed: int
    threads: int
    warmup: int
    cycles: int
    precision: float
    cycles_max: int
    find_saturation: float
    cycle_ns: float
    injection_ns: float
    ejection_ns: float
    router_ns: float
    link_ns: float
    credit_ns: float
    escape_ns: float

class Lists(TypedDict, total=False):
    machine: Iterable[Union[str, os.PathLike[str]]]
    set: Iterable[Union[str, Sequence[str]]]
    topology: Iterable[str]
    router: Iterable[Literal["angara", "generic"]]
    vcs: Iterable[int]
    switching: Iterable[Literal["cut-through", "wormhole"]]
    hold_switch: Iterable[bool]
    buffer: Iterable[int]
    deadlock: Iterable[Literal["bubble", "dateline"]]
    routing: Iterable[Literal["dor", "adaptive", "nca", "minimal", "valiant", "ugal", "ugal-g", "par", "updown", "west-first", "odd-even"]]
    ugal_threshold: Iterable[int]
    workload: Iterable[str]
    length: Iterable[Union[int, str]]
    load: Iterable[float]
    pattern: Iterable[Union[str, ArrayLike]]
    rates: Iterable[Union[str, ArrayLike]]
    process: Iterable[str]
    map: Iterable[Literal["linear", "random", "hilbert", "morton"]]
    probe: Iterable[str]
    fault: Iterable[Union[str, Sequence[str]]]
    error_rate: Iterable[str]
    trace: Iterable[Union[int, str]]
    seed: Iterable[int]
    warmup: Iterable[int]
    cycles: Iterable[int]
    precision: Iterable[float]
    cycles_max: Iterable[int]
    find_saturation: Iterable[float]
    cycle_ns: Iterable[float]
    injection_ns: Iterable[float]
    ejection_ns: Iterable[float]
    router_ns: Iterable[float]
    link_ns: Iterable[float]
    credit_ns: Iterable[float]
    escape_ns: Iterable[float]
