"""Types of the options of commands. Written by tests/test_options.py."""

import os
from typing import Dict, Mapping, Sequence, Tuple, TypedDict, Union

OPTIONS: Dict[str, Dict[str, Tuple[str, str, str]]]

Value = Union[str, int, float, os.PathLike[str]]
Values = Union[Value, Sequence[Value]]

class Run(TypedDict, total=False):
    mpi: Values
    heap: Values
    timeout: Values
    quiet: bool
    torus: Values
    mesh: Values
    set: Union[Value, Sequence[Value], Mapping[str, Value]]
    path: Values
    collectives: Values
    collectives_table: Values
    barrier: Values
    fault: Values
    runtime_dir: Values
    cluster: Values
    ppn: Values
    map: Values
    alloc: Values
    bind: Values
    heterogeneous: bool
    wrap: Union[Sequence[Value], Sequence[Sequence[Value]]]
    checks: Union[bool, Value]
    pes_as: Values
    record: Values
    call_cost: Values
    compute: Values
    virtual_tsc: bool
    seed: Values
    seeds: Values
    patience: Values
    strict: bool
    label: bool
    history: bool
    trace_links: Union[bool, Value]
    capture: Values
    web: Union[bool, Value]
    web_stay: bool

class Whatif(TypedDict, total=False):
    torus: Values
    map: Values
    ppn: Values
    set: Union[Value, Sequence[Value], Mapping[str, Value]]
    routing: Values
    barrier: Values
    collectives: Values
    call_cost: Values
    pes_as: Values
    run: Values
    csv: Values
    svg: Values
    html: Values
    quiet: bool

class Plan(TypedDict, total=False):
    mode: Values
    dims: Values
    sizes: Values
    torus: Values
    lat_hop: Values
    lat_inc: Values
    rate_link: Values
    rate_inj: Values
    rate_ej: Values
    lat_inj: Values
    lat_ej: Values
    svg: Values
    x_axis: Values
    y_axis: Values
    n: Values
    units: Values
    cores: Values
    core_gflops: Values
    memory_gbs: Values
    injection_gbs: Values
    link_gbs: Values
    zip: Values
    seed: Values
    k_section_svg: Values
    fault: Values
    from_: Values
    to: Values
    routes: Values
    check: Values
    topology: Values
    routing: Values
    pattern: Values
    root: Values
    member: Values

class Alloc(TypedDict, total=False):
    torus: Values
    fault: Values
    dead_nodes: Values
    dead_seed: Values
    nodes: Values
    taken: Values
    policy: Values
    routes: Values
    write: Values
    transit: Values
    table: Values
    ppn: Values
    np: Values
    traffic: Values
    randoms: Values
    seed: Values
    packets: Values
    log: Values
    lublin: Values
    load: Values
    overestimate: Values
    seeds: Values
    processors_per_node: Values
    oversized: Values
    scheduler: Values
    reservations: Values
    cut: Values
    samples: Values
    threads: Values
    svg: Values
    svg_jobs: Values
    write_swf: Values
    cluster: Values
    partition: Values
    mark: Values
    all_held: bool
    interval: Values
    once: bool
    dry_run: bool
