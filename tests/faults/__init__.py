"""The fault campaign: seeded faults at random moments, and invariants that independent code checks after each."""
