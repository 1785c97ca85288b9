"""A formula as SymPy, and how it is written."""
