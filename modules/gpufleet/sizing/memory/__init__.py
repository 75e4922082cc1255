"""Memory of a workload by component, on the fullest device.

Input: a workload, a layout and hardware. Output: weights in exact block sizes, KV cache, activations, gradients,
optimizer states and overhead, whether they fit, and what rules of thumb would give.
"""
