"""Pricers of Google Cloud resources. Each parses a resource's inputs once, into a frozen dataclass."""
