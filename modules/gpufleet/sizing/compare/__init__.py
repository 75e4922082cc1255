"""Comparison of accelerators: facts, prices, and a model's speed per watt and per dollar.

Input: names of accelerators and an optional workload. Output: an ``AcceleratorComparison`` with facts of the catalogue,
the cheapest known prices, and the speed of the smallest replica that fits. It is printed as a table, JSON, plots or an
HTML page; only plots need the plotting libraries.
"""
