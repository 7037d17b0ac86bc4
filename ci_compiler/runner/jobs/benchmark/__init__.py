"""The stage `benchmark`: how fast the built package is, beside a second build of it on the same machine.

    own, beside  ->  rounds of fresh processes  ->  gains with their errors  ->  benchmark.json, a table, the floor
    two builds       on pinned cores                of paired rounds

**Arms.** `own` is the build of the job, `beside` another build of the same package: a neighbour along an axis of the
matrix, or the last publication. On the CPU, PyTorch's ATen chooses the kernels of many operators at run time by what
the CPU has, whatever instruction set the compiler was allowed to use; oneDNN and MKL do the same. The report states the
level that ATen chose.

**Rounds.** Each round runs a fresh process for each arm, on the same few cores, in one order and the next time in
reverse, so that a drift of the machine meets both builds alike. A process times the import and, for each measurement,
the first call, a warm-up, and the steady state, whose result is the median of its samples.

**Protocol.** A process prints a line of JSON for each measurement, and a declared program does the same:

    {"name": "gemm-float32", "device": "cpu", "first": 0.012, "seconds": [0.0021, 0.0022, 0.0021]}
    {"name": "gemm-int8", "device": "cpu", "skipped": "this build has no such kernel"}

`seconds` has the durations of single calls, or is one duration; `first` may be left out. The environment of a declared
program has `BENCHMARK_DEVICE` (`cpu` or `gpu`), `BENCHMARK_SECONDS` (about how long each measurement should take), and
`OMP_NUM_THREADS`. All this comes from code under test: it is data, checked and bounded by `lines`, and other output is
ignored.
"""
