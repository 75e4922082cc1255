"""The answers: differences, what-if, policy, reports, comments and total cost of ownership."""
