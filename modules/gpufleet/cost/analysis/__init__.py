"""What bills mean: differences, what-if, policy, reports, comments, total cost of ownership."""
