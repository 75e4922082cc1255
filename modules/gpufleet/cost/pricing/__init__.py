"""Resources to bills: cost components, rates, spot, commitments and reservations."""
