"""`python -m tests.bench`: every benchmark, one after the other."""

from tests.bench.throughput import main

main()
