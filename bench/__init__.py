"""Benchmarks: ratios beside a bare loop in the same run. `make bench`."""
