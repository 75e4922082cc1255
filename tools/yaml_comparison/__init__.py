"""Compare our interpreter of Pulumi YAML with pulumi-yaml: ``python -m tools.yaml_comparison``."""
