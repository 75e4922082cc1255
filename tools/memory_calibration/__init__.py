"""Calibration of the memory model: published measurements, the constants that are fitted to them, and its error."""
