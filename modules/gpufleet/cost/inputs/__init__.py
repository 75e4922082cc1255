"""Inputs of a bill: the resources of a program, a preview, a state or an event log, and their usage."""
