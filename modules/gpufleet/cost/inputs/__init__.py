"""What a bill is computed from: the resources of a program, a preview, a state or an event log, and their usage."""
