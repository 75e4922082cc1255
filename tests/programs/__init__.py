"""Public Pulumi programs priced by hand: their resources as facts, the arithmetic, and the share that we reach.

Input: ``tests/cases/public_programs/<program>.yaml`` (the resources as a preview shows them, written by us),
``unit_prices.csv`` (list prices with their sources) and ``by_hand.csv`` (quantity times unit price for each resource).
"""
