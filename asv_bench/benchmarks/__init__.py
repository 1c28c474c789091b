"""Benchmarks of nbmapops and its peers, for asv.

`workloads` makes the inputs, `works` holds what is done with them, by us and by every peer. Both
are shared with ``compare.py``, so that no workload is written twice.
"""
