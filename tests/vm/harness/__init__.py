"""Virtual machines, an Ethernet between them and the daemon under test, for the tests in tests/vm and for tools/demo.

A `Cluster` owns everything it starts: leaving its `with` block ends its processes and removes its sockets, whatever
happened inside. Logs stay in its log folder.
"""
