"""One folder for each check: what measures on the node, what reads the record, and `check.yaml`."""
