"""Virtual machines, an Ethernet between them and the daemon under test, for the tests in tests/vm and for tools/demo.

A `Cluster` owns everything that it starts. When its `with` block ends for any reason, it ends its processes and removes its
sockets. Logs stay in its log folder.
"""
