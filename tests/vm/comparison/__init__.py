"""The parts of tests/vm/bench.py: machines, perftest's lines and output, idle daemons, the report."""
