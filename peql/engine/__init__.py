"""The engine: formulas, the criterion and the search over forms."""
