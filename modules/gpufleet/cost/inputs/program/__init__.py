"""A Pulumi program evaluated without an engine, confined in a sandbox."""
