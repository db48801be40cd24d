"""What tests/vm/bench.py is made of: machines, perftest's lines and what it prints, idle daemons, the report."""
