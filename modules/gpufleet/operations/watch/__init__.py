"""Watch nodes in use: what their exporters say, through rules as data, becomes evidence, holds and drains.

Input: the exporters that the registry knows, over HTTP, and alerts that Alertmanager sends back. Output: findings in
the registry (history, repair ledger, hold or quarantine by policy), drained nodes, and the rules as Prometheus alerts.
"""
