"""Options of commands. Written by tests/test_options.py from docs/reference/options.md."""

from typing import Dict, Tuple

OPTIONS: Dict[str, Dict[str, Tuple[str, str, str]]] = {'run': {'n': ('--np',
               '<N>',
               'Number of PEs (processes). -np is understood too, as are the usual options of other launchers.'),
         'mpi': ('--mpi',
                 '<LIBRARY>',
                 "MPI library of the program: mpich, intel or openmpi; auto looks at the program's file, or at "
                 "Python's packages; none offers no launcher of MPI [default: auto]"),
         'heap': ('--heap',
                  '<BYTES>',
                  'Symmetric heap per PE, such as 64M [default: 256M]. The default is $SHMEM_SYMMETRIC_SIZE, or 256M '
                  '(MPI: 64M, through UCX 96M) where memory allows.'),
         'timeout': ('--timeout',
                     '<SECONDS>',
                     'End the job after this time, and say who waits for what. In seconds, or with a unit, such as '
                     '2m. The message says what each PE waits for.'),
         'quiet': ('--quiet', '', 'Say nothing about what is started. Errors are still reported.'),
         'torus': ('--torus',
                   '<SHAPE>',
                   'Torus, such as 2x2x2 [default: the most cubic that fits]. Without it, the torus is the most '
                   'cubic one that holds the PEs.'),
         'mesh': ('--mesh', '<SHAPE>', 'Mesh (no wrap-around links), such as 4x4'),
         'machine': ('--machine',
                     '<NAME|FILE.toml>',
                     'A machine, as `angara machine --help` lists them, or a file. desmos is 4x2x2x2, angara-k1 is '
                     '3x3x4. A file has shape and times, as `angara machine desmos` prints one; --torus or --mesh '
                     'gives it another shape.'),
         'set': ('--set',
                 '<KEY=VALUE>',
                 'Change values of the machine, such as link=15GB/s,hop=60ns; may be repeated'),
         'path': ('--path',
                  '<PATH>',
                  "Engine: direct, ring (the emulated chip) or auto. With direct, the PE's own thread stores into "
                  "the peer's memory. With ring, everything goes through the emulated adapters and links. With auto, "
                  'it is direct where the target is on this host. [default: auto]'),
         'collectives': ('--collectives',
                         '<HOW>',
                         'Collectives: auto, tree (collective subnet) or p2p (puts) [default: auto]'),
         'collectives_table': ('--collectives-table',
                               '<FILE>',
                               'Table of which collective uses which algorithm, as `angara bench shmem --write-table '
                               'FILE` writes it'),
         'barrier': ('--barrier',
                     '<HOW>',
                     "Barrier: auto; multiphase, all-to-all, tree, hypercube, master or counting (the adapters'); "
                     'counter (shared memory) or dissemination (puts) [default: auto]'),
         'fault': ('--fault',
                   '<SPEC>',
                   'Break something, such as `link 0,0,0 +X down`. Others are `link 0,0,0 +X corrupt=1%` and `node '
                   '1,0,0 down`; may be repeated.'),
         'runtime_dir': ('--runtime-dir', '<DIR>', 'Use the daemon that listens in this directory, and no other'),
         'cluster': ('--cluster',
                     '<FILE>',
                     'Run on the cluster of this file. The daemon of this host starts the job.'),
         'ppn': ('--ppn', '<K>', 'Most PEs on one node [default: 1]'),
         'map': ('--map',
                 '<MAP>',
                 'Placement: linear, random:SEED, file:F or auto:REPORT. A file has one node (`1,0,1` or a number) '
                 'per PE and line. With auto, PEs sit near those they send most to, by a report of an earlier run '
                 '(--report), a recording or a matrix of bytes. [default: linear]'),
         'alloc': ('--alloc',
                   '<SEARCH>',
                   'Give the job nodes of its own whose packets stay among them (a node set), found by: auto (the '
                   'same as utilisation), utilisation, fragmentation, closed, first-fit-box, best-fit-box'),
         'bind': ('--bind',
                  '<BIND>',
                  'Processor affinity of the PEs: auto (own core each if there are at least as many PEs as cores, '
                  'else an equal share of the cores; an affinity set by you is kept), core (one core each), none. '
                  'Possible values: auto: By the number of PEs and cores; core: One core each; none: Leave it to the '
                  'scheduler [default: auto]'),
         'heterogeneous': ('--heterogeneous',
                           '',
                           'PEs may be programs for x86-64 and for aarch64, in one job. Static variables are not '
                           'symmetric then, only the heap is; routines of long double and the order of plain char, '
                           'which differ, are refused'),
         'wrap': ('--wrap',
                  '<PES> <COMMAND>',
                  'Start PEs in another command: `--wrap 2 valgrind`. The program and its arguments follow the '
                  "command, as in `--wrap all 'strace -o trace.$ANGARA_PE'`. PES is a number, a list such as 0,4-7, "
                  'or all; a shell reads COMMAND; may be repeated, and the first one is the outermost.'),
         'checks': ('--check',
                    '[=<calls|races>]',
                    'Find wrong calls, or races. Look closer, slowly. `calls`: at what the program passes to the '
                    'library, and end it with a message about the first mistake: memory that is not allocated, '
                    'overlapping ranges, collectives called differently by different PEs. `races`: at accesses of '
                    'PEs to the same memory that nothing puts in order, when the job has ended. Possible values: '
                    'calls: What the program passes to the library; races: Accesses that nothing puts in order'),
         'clock': ('--clock',
                   '<CLOCK>',
                   'Time of the program. With virtual, every operation takes as long as on the emulated network, the '
                   "program's own timers say so, and two runs are equal. Possible values: wall: The machine's; "
                   "virtual: The emulated machine's [default: wall]"),
         'pes_as': ('--pes-as',
                    '<HOW>',
                    'In virtual time: processes, coroutines or auto. With --clock virtual: PEs as processes; as '
                    'coroutines of one process, which has many more of them and is faster; or auto: coroutines where '
                    'program and options allow it. [default: processes]'),
         'record': ('--record',
                    '<FILE.atr>',
                    'With --clock virtual: write to this file what each PE posts and what it waits for; `angara sim '
                    'run --workload trace:FILE` replays it, on this network or another one'),
         'call_cost': ('--call-cost',
                       '<NS>',
                       'With --clock virtual: nanoseconds that a call of the library takes [default: 1; ours, no '
                       "machine's]"),
         'compute': ('--compute',
                     '<HOW>',
                     "With --clock virtual: what the program's computing between two calls of the library takes: "
                     'none, fixed:NS, measured[:FACTOR] (of the processor time here; two runs differ), record:FILE '
                     '(the same, and writes it down) or replay:FILE (what was written down; two runs are equal) '
                     '[default: none]'),
         'virtual_tsc': ('--virtual-tsc',
                         '',
                         "With --clock virtual: the processor's time stamp counter (rdtsc) tells virtual time at 1 "
                         'GHz; x86-64 only, and each look takes microseconds on the wall'),
         'seed': ('--seed',
                  '<S>',
                  'With --clock virtual: injections take up to 200 ns longer (or as --set jitter=… says), as this '
                  'seed draws it, so that a program that relies on an order that nothing ensures may fail; random '
                  'numbers of the system are drawn by it, too; the same seed is the same run'),
         'seeds': ('--seeds',
                   '<A..B>',
                   'With --clock virtual: run once with each of these seeds, such as 1..200, on all cores, until one '
                   'fails'),
         'patience': ('--patience',
                      '<SECONDS|never>',
                      'With --clock virtual: seconds on the wall after which the others go on without a PE that does '
                      'not come back to the library, because it spins on memory, sleeps in the kernel or computes; '
                      'or never. It is named with its line, and another run may differ [default: 30]'),
         'strict': ('--strict',
                    '',
                    'With --clock virtual: exit with status 1 if another run may differ, because the others went on '
                    'without a PE, or if times rest on a guess; the run says at its end why'),
         'label': ('--label', '', 'Prefix each line of output with its PE'),
         'report': ('--report',
                    '<FILE.json[.gz]>',
                    'Write traffic to this file, for `angara report`. The file has placement, PE×PE traffic and link '
                    'traffic. It is compressed if the name ends in .gz; a large one gets that ending.'),
         'history': ('--history',
                     '',
                     'With --report: also write what each link carried, by time; `angara report FILE --html PAGE` '
                     'plays it'),
         'trace': ('--trace',
                   '<FILE.json[.gz]>',
                   'Write a timeline of every call to this file. Perfetto and chrome://tracing show it, and `angara '
                   'trace summary FILE` sums it up; compressed if the name ends in .gz.'),
         'trace_links': ('--trace-links',
                         '[=<N>]',
                         'With --trace: add tracks of the load of the links that carry most, N of them [default N: '
                         '16]; the links of the daemon are looked at up to 10 times a second'),
         'capture': ('--capture',
                     '<FILE.pcapng>',
                     'Write every packet to this file, for Wireshark. Everything goes through the emulated network '
                     '(--path ring).'),
         'web': ('--web',
                 '[=<ADDR>]',
                 'Serve a page that shows the network at work. Its URL is printed. The page stays after the program '
                 'until Ctrl-C. A daemon that has a page shows its own [default ADDR: 127.0.0.1:8290; port 0 is any '
                 'that is free].'),
         'web_stay': ('--web-stay',
                      '<YES|NO>',
                      'Whether the page of --web stays after the program. Possible values: yes: Until Ctrl-C; no: It '
                      'goes with the job [default: yes]')},
 'whatif': {'n': ('--np', '<LIST>', 'Numbers of PEs, such as 64 or 8,64,512'),
            'torus': ('--torus', '<LIST>', 'Tori, such as 4x4x2,8x4'),
            'machine': ('--machine', '<LIST>', 'Machines: names, or files that end in .toml'),
            'map': ('--map', '<LIST>', 'Placements: linear, random:SEED, random:FIRST..LAST, file:F, auto:F'),
            'ppn': ('--ppn', '<LIST>', 'Most PEs on one node'),
            'set': ('--set',
                    '<KEY=VALUE,…>',
                    'A machine with other values, such as link=15GB/s,hop=60ns, beside the unchanged one; may be '
                    'repeated'),
            'routing': ('--routing', '<LIST>', 'Ways of writes: dor, adaptive'),
            'barrier': ('--barrier', '<LIST>', 'Barriers, such as multiphase,tree'),
            'collectives': ('--collectives', '<LIST>', 'Collectives, such as tree,p2p'),
            'call_cost': ('--call-cost', '<LIST>', 'Nanoseconds that a call of the library takes, such as 1,50,100'),
            'pes_as': ('--pes-as',
                       '<HOW>',
                       'PEs as processes, as coroutines of one process, or auto: coroutines where program and '
                       'options allow it [default: processes]'),
            'run': ('--run', '<OPTIONS>', 'Other options of `angara run`, the same for all, as one word'),
            'csv': ('--csv', '<FILE>', 'Write the table as CSV, too'),
            'svg': ('--svg', '<FILE>', 'Draw the times, too'),
            'html': ('--html',
                     '<FILE>',
                     'Write a page with picture and table, too, for any browser; it needs no other file and no '
                     'network'),
            'quiet': ('--quiet', '', 'Say nothing about progress')},
 'plan barrier': {'mode': ('--mode',
                           '<MODE>',
                           'Reading of the formulas; all when not given. Possible values: paper: As printed: link '
                           'load n^(dim+1)/4 (both directions of a link added up), diameter dim·n/2 also for odd n, '
                           'link-bound from n > r, inequality (6) with the forgotten division; corrected: The same '
                           'load with the algebra mended: (6) divided by n on both sides, link-bound from n > 4/r; '
                           'exact: The true load of one directed link, n^(dim+1)/8 for even n with ties split, the '
                           'true diameter dim·⌊n/2⌋, link-bound from n > 8/r'),
                  'dims': ('--dims', '<DIMS>', 'Numbers of torus dimensions [default: 2,3,4]'),
                  'sizes': ('--sizes', '<N>', 'Nodes per dimension [default: 2,4,6,8,12,16]'),
                  'torus': ('--torus', '<SHAPE>', 'Also evaluate this shape with true link loads; may be repeated'),
                  'lat_hop': ('--lat-hop', '<NS>', 'Router and link of one hop, ns [default: 129]'),
                  'lat_inc': ('--lat-inc', '<NS>', 'Advancing to the next phase, ns [default: 10]'),
                  'rate_link': ('--rate-link', '<NS>', 'Time per packet on a link, ns [default: 4]'),
                  'rate_inj': ('--rate-inj', '<NS>', 'Time per packet of an injector, ns [default: 4]'),
                  'rate_ej': ('--rate-ej',
                              '<NS>',
                              'Time per packet of an ejector, ns [default: the same as --rate-inj]'),
                  'lat_inj': ('--lat-inj', '<NS>', 'From the host into the network, ns [default: 300]'),
                  'lat_ej': ('--lat-ej', '<NS>', 'From the network to the host, ns [default: 300]'),
                  'svg': ('--svg',
                          '<FILE>',
                          'Draw a chart into FILE; as PDF or a script of gnuplot if its name ends in .pdf or .gp'),
                  'x_axis': ('--x-axis',
                             '<SCALE>',
                             'Horizontal axis of charts: linear, logarithmic (without points at or below 0) or '
                             'linear from 0 on [default: that of the chart]. Possible values: linear: Even, of what '
                             'is drawn; log: Logarithmic; without what is at or below 0; zero: Even, and 0 is on it'),
                  'y_axis': ('--y-axis',
                             '<SCALE>',
                             'Vertical axis of charts, likewise. Possible values: linear: Even, of what is drawn; '
                             'log: Logarithmic; without what is at or below 0; zero: Even, and 0 is on it')},
 'plan matmul': {'n': ('--n', '<N>', 'Order of the matrices of the level table [default: 1024]'),
                 'sizes': ('--sizes', '<N>', 'Orders of the size table [default: 256,512,1024,2048,4096,8192]'),
                 'units': ('--units',
                           '<UNITS>',
                           "Units of times: the paper's round binary ones, or SI. Possible values: binary: T\\[µs\\] "
                           "= S\\[Mi\\] / (K\\[Ki\\]·BW\\[Gwords/s\\]), as in the paper's tables; decimal: SI "
                           '[default: binary]'),
                 'torus': ('--torus', '<SHAPE>', 'Torus analysed beside Merrimac [default: 8x8x8]'),
                 'cores': ('--cores', '<CORES>', 'Cores of one torus node [default: 8]'),
                 'core_gflops': ('--core-gflops', '<GFLOPS>', 'Peak of one core, GF/s [default: 17.6]'),
                 'memory_gbs': ('--memory-gbs', '<GBS>', 'Memory bandwidth of a node, GB/s [default: 51.2]'),
                 'injection_gbs': ('--injection-gbs', '<GBS>', 'Host interface of a node, GB/s [default: 8]'),
                 'link_gbs': ('--link-gbs', '<GBS>', 'One direction of a link, GB/s [default: 7.5]'),
                 'zip': ('--zip',
                         '3-n <N>',
                         'Order of the matrices whose zip3 placement is counted (a power of two up to 256) [default: '
                         '16]'),
                 'seed': ('--seed', '<SEED>', 'Seed of the random placement [default: 1]'),
                 'k_section_svg': ('--k-section-svg',
                                   '<FILE>',
                                   'Draw the k-section bandwidth into FILE, as --svg does'),
                 'svg': ('--svg',
                         '<FILE>',
                         'Draw a chart into FILE; as PDF or a script of gnuplot if its name ends in .pdf or .gp'),
                 'x_axis': ('--x-axis',
                            '<SCALE>',
                            'Horizontal axis of charts: linear, logarithmic (without points at or below 0) or linear '
                            'from 0 on [default: that of the chart]. Possible values: linear: Even, of what is '
                            'drawn; log: Logarithmic; without what is at or below 0; zero: Even, and 0 is on it'),
                 'y_axis': ('--y-axis',
                            '<SCALE>',
                            'Vertical axis of charts, likewise. Possible values: linear: Even, of what is drawn; '
                            'log: Logarithmic; without what is at or below 0; zero: Even, and 0 is on it')},
 'plan routes': {'torus': ('--torus', '<SHAPE>', 'Torus or mesh [default: 4x2x2x2]'),
                 'fault': ('--fault',
                           '<FAULT>',
                           "A dead link or node, such as 'link 0,0,0 +X down' or 'node 1,0,0 down'; may be repeated"),
                 'from_': ('--from', '<NODE>', 'Show the routes from this node'),
                 'to': ('--to', '<NODE>', 'Show the routes to this node'),
                 'routes': ('--routes',
                            '<ROUTES>',
                            "Which of a pair's equally short ways, as `routes` of a machine says. Possible values: "
                            'parity: As the parity of its coordinates says; balanced: As a table says that evens out '
                            'all-to-all traffic [default: parity]'),
                 'check': ('--check',
                           '<FILE>',
                           'Check a table read from FILE instead (torus = "4x4", then [[route]] tables with from, to '
                           'and path)'),
                 'topology': ('--topology',
                              '<SHAPE>',
                              'Check the ways of a topology of simulations instead, such as slimfly:5 or graph:FILE'),
                 'routing': ('--routing',
                             '<ROUTING>',
                             'With --topology: how packets of generic routers find their way, as `angara sim run` '
                             'says [default: what the topology takes]'),
                 'pattern': ('--pattern',
                             '<PATTERN>',
                             'With --topology: traffic whose loads are shown beside those of uniform traffic, as '
                             '`angara sim run` says'),
                 'seed': ('--seed',
                          '<SEED>',
                          'With --topology: decides random ways, and the random permutation [default: 1]')},
 'plan tree': {'torus': ('--torus', '<SHAPE>', 'Torus or mesh [default: 4x2x2x2]'),
               'root': ('--root', '<NODE>', 'Root node [default: the participant from which the tree is lowest]'),
               'member': ('--member', '<NODE>', 'A participating node; may be repeated [default: all]'),
               'fault': ('--fault', '<FAULT>', 'A dead link or node; may be repeated'),
               'check': ('--check',
                         '<FILE>',
                         'Check a tree read from FILE instead (torus = "4x4", then [[row]] tables with node, root, '
                         'to_root and down)')},
 'alloc set': {'torus': ('--torus', '<SHAPE>', 'Shape of the torus; `mesh:` before it for a mesh'),
               'fault': ('--fault',
                         '<FAULT>',
                         'Dead link or node, such as `link 0,0 +X down` or `node 1,0 down`; may be repeated'),
               'dead_nodes': ('--dead-nodes',
                              '<FRACTION>',
                              'Fraction of nodes that are dead, drawn at random, such as 1%'),
               'dead_seed': ('--dead-seed', '<SEED>', 'Seed of the dead nodes [default: 1]'),
               'nodes': ('--nodes', '<NODES>', 'Nodes for processes'),
               'taken': ('--taken',
                         '<LIST>',
                         'Nodes that other jobs hold: numbers and ranges, such as 0-7,12, or coordinates, such as '
                         '`0,0;1,0`'),
               'policy': ('--policy',
                          '<POLICY>',
                          'How the set is searched for. Possible values: first-fit-box: The first free box, smallest '
                          'first; best-fit-box: The free box of that size which touches most nodes that are taken or '
                          'dead; closed: The free box, holes and all, that holds the fewest nodes and has routes for '
                          'all pairs; fragmentation: Of such boxes, the one that leaves the largest free box; '
                          'utilisation: The same, but nodes beyond those asked for are given back where routes can '
                          'do without; unconstrained: The free nodes with the lowest numbers; packets of jobs cross '
                          'each other [default: utilisation]'),
               'routes': ('--routes',
                          '<ROUTES>',
                          "Which of a pair's shortest ways it takes. Possible values: parity: As the parity of its "
                          'coordinates says; balanced: As evens out the loads of links, in direction order; spread: '
                          'The same, also with first and last steps that leave direction order [default: spread]'),
               'write': ('--write',
                         '<FILE>',
                         'Write the routes into FILE, as `angara plan routes --check` reads them')},
 'alloc check': {'torus': ('--torus', '<SHAPE>', 'Shape of the torus; `mesh:` before it for a mesh'),
                 'fault': ('--fault',
                           '<FAULT>',
                           'Dead link or node, such as `link 0,0 +X down` or `node 1,0 down`; may be repeated'),
                 'dead_nodes': ('--dead-nodes',
                                '<FRACTION>',
                                'Fraction of nodes that are dead, drawn at random, such as 1%'),
                 'dead_seed': ('--dead-seed', '<SEED>', 'Seed of the dead nodes [default: 1]'),
                 'nodes': ('--nodes',
                           '<LIST>',
                           'Nodes of the set: numbers and ranges, such as 0-7,12, or coordinates, such as `0,0;1,0`'),
                 'transit': ('--transit', '<LIST>', 'Nodes of the set that only pass packets on'),
                 'table': ('--table',
                           '<FILE>',
                           'Check the routes of FILE, as --write or somebody else has written them, instead of '
                           'making some'),
                 'routes': ('--routes',
                            '<ROUTES>',
                            "Which of a pair's shortest ways it takes. Possible values: parity: As the parity of its "
                            'coordinates says; balanced: As evens out the loads of links, in direction order; '
                            'spread: The same, also with first and last steps that leave direction order [default: '
                            'spread]'),
                 'write': ('--write',
                           '<FILE>',
                           'Write the routes into FILE, as `angara plan routes --check` reads them')},
 'alloc map': {'torus': ('--torus', '<SHAPE>', 'Shape of the torus; `mesh:` before it for a mesh'),
               'fault': ('--fault',
                         '<FAULT>',
                         'Dead link or node, such as `link 0,0 +X down` or `node 1,0 down`; may be repeated'),
               'dead_nodes': ('--dead-nodes',
                              '<FRACTION>',
                              'Fraction of nodes that are dead, drawn at random, such as 1%'),
               'dead_seed': ('--dead-seed', '<SEED>', 'Seed of the dead nodes [default: 1]'),
               'nodes': ('--nodes',
                         '<LIST>',
                         'Nodes that take processes, by number, such as `0-7,12` [default: all that work]'),
               'ppn': ('--ppn', '<K>', 'Most processes on a node [default: 1]'),
               'np': ('--np',
                      '<N>',
                      'Number of processes [default: as many as the file has; of a matrix in lines `SRC DST BYTES`, '
                      'as have room]'),
               'traffic': ('--traffic',
                           '<FILE>',
                           'What processes send each other: a report (`angara run --report`), a recording '
                           '(`--record`), or a matrix of bytes'),
               'write': ('--write', '<FILE>', 'Write the placement to this file, for `angara run --map file:F`'),
               'randoms': ('--randoms', '<K>', 'Random placements to compare with [default: 3]'),
               'seed': ('--seed', '<S>', 'Seed of random placements and of the search [default: 1]'),
               'packets': ('--packets',
                           '<N>',
                           'Most packets of a simulation: bytes are divided until there are no more, or one for each '
                           'pair; 0 for none [default: 100000]')},
 'alloc simulate': {'torus': ('--torus', '<SHAPE>', 'Shape of the torus; `mesh:` before it for a mesh'),
                    'fault': ('--fault',
                              '<FAULT>',
                              'Dead link or node, such as `link 0,0 +X down` or `node 1,0 down`; may be repeated'),
                    'dead_nodes': ('--dead-nodes',
                                   '<FRACTION>',
                                   'Fraction of nodes that are dead, drawn at random, such as 1%'),
                    'dead_seed': ('--dead-seed', '<SEED>', 'Seed of the dead nodes [default: 1]'),
                    'log': ('--log',
                            '<FILE>',
                            'Jobs of a log in the Standard Workload Format, plain or compressed (.gz)'),
                    'lublin': ('--lublin',
                               '<JOBS>',
                               'That many jobs of the Lublin-Feitelson model for a machine of this size'),
                    'load': ('--load',
                             '<LOAD>',
                             'Load of the model: node-seconds of all jobs by those of the machine until the last '
                             'submission; times between submissions are scaled to it [default: as the model has it, '
                             'whatever the machine]'),
                    'overestimate': ('--overestimate',
                                     '<FACTOR>',
                                     'Users of the model estimate run times uniformly from 1 to 1 + FACTOR times the '
                                     'true one [default: 2]'),
                    'seeds': ('--seeds',
                              '<SEEDS>',
                              'Seeds of the model, `FIRST..LAST` or a list: one run each, and means with 95 % '
                              'confidence intervals [default: 1]'),
                    'processors_per_node': ('--processors-per-node',
                                            '<N>',
                                            'Processors of a node: logs count processors [default: 1]'),
                    'oversized': ('--oversized',
                                  '<OVERSIZED>',
                                  'Jobs of the log that are larger than the machine. Possible values: refuse: The '
                                  'log is refused; skip: They are left out [default: refuse]'),
                    'scheduler': ('--scheduler',
                                  '<SCHEDULER>',
                                  'In which order waiting jobs start; a list gives one row each. Possible values: '
                                  'fcfs: First come, first served: nobody overtakes; easy: EASY backfilling: later '
                                  'jobs overtake where they do not delay the first one, for which a set of nodes is '
                                  'reserved; conservative: Conservative backfilling: later jobs overtake where they '
                                  'delay none of the earlier ones, for each of which a set of nodes is reserved '
                                  '[default: easy]'),
                    'policy': ('--policy',
                               '<POLICY>',
                               'How sets are searched for; a list gives one row each. Possible values: '
                               'first-fit-box: The first free box, smallest first; best-fit-box: The free box of '
                               'that size which touches most nodes that are taken or dead; closed: The free box, '
                               'holes and all, that holds the fewest nodes and has routes for all pairs; '
                               'fragmentation: Of such boxes, the one that leaves the largest free box; utilisation: '
                               'The same, but nodes beyond those asked for are given back where routes can do '
                               'without; unconstrained: The free nodes with the lowest numbers; packets of jobs '
                               'cross each other [default: first-fit-box]'),
                    'reservations': ('--reservations',
                                     '<JOBS>',
                                     'Jobs of the queue that conservative backfilling plans for; later ones wait '
                                     'without a reservation [default: 256]'),
                    'cut': ('--cut',
                            '<SHARE>',
                            'Share of the jobs at either end that metrics leave out, while the machine fills and '
                            'empties [default: 0.05]'),
                    'samples': ('--samples',
                                '<N>',
                                'At most about N instants of a run at which the largest free box is looked for '
                                '[default: 200]'),
                    'threads': ('--threads', '<N>', 'Threads, for runs side by side [default: cores]'),
                    'svg': ('--svg',
                            '<FILE>',
                            'Draw the machine over time into this file; one scheduler, policy and seed'),
                    'svg_jobs': ('--svg-jobs',
                                 '<JOBS>',
                                 'Jobs during whose submission the machine is drawn, from the middle of the log '
                                 '[default: 500]'),
                    'write_swf': ('--write-swf',
                                  '<FILE|->',
                                  'Write the jobs with their simulated waits as a log into this file (.gz: '
                                  'compressed), or with - to standard output, and what else is printed to standard '
                                  'error; one scheduler, policy and seed')},
 'alloc slurm': {'cluster': ('--cluster',
                             '<FILE>',
                             'Cluster file: hosts are nodes of Slurm by the same name, one node of the torus each'),
                 'policy': ('--policy',
                            '<POLICY>',
                            'How sets are searched for. Possible values: first-fit-box: The first free box, smallest '
                            'first; best-fit-box: The free box of that size which touches most nodes that are taken '
                            'or dead; closed: The free box, holes and all, that holds the fewest nodes and has '
                            'routes for all pairs; fragmentation: Of such boxes, the one that leaves the largest '
                            'free box; utilisation: The same, but nodes beyond those asked for are given back where '
                            'routes can do without; unconstrained: The free nodes with the lowest numbers; packets '
                            'of jobs cross each other [default: first-fit-box]'),
                 'fault': ('--fault',
                           '<FAULT>',
                           'Dead link or node, such as `link 0,0 +X down`; may be repeated. Nodes that are down or '
                           'drained in Slurm are dead without it'),
                 'partition': ('--partition',
                               '<NAME>',
                               'Only nodes and jobs of this partition [default: all, and all nodes must be hosts of '
                               'the cluster file]'),
                 'mark': ('--mark',
                          '<COMMENT>',
                          'Comment of the held jobs whose nodes are chosen (`sbatch --hold --comment=angara`); '
                          'others stay on hold [default: angara]'),
                 'all_held': ('--all-held', '', 'Choose nodes of every held job'),
                 'interval': ('--interval', '<TIME>', 'Time between two looks at the queue [default: 2s]'),
                 'once': ('--once', '', 'Look once'),
                 'dry_run': ('--dry-run', '', 'Look once, print what would be done, and change nothing')}}
