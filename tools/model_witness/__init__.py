"""True parameter counts of model families, from transformers' classes on PyTorch's meta device (maintainers only)."""
