"""What operations print: plain values in, lines out. `cli` prints them."""
