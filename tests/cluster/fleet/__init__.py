"""Hosts as network namespaces on one bridge, each with a real pvrdmad, one real etcd, and VMs.

A `Fleet` owns everything that it starts. When its `with` block ends for any reason, it ends its processes and removes its
namespaces. Logs stay in its log folder.
"""
