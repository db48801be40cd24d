"""Hosts as network namespaces on one bridge, each with a real pvrdmad, one real etcd, and VMs.

A `Fleet` owns everything it starts: leaving its `with` block ends its processes and removes its namespaces, whatever
happened inside. Logs stay in its log folder.
"""
