"""The engine: rows by step, training, the formula, its solver, the moves and the criterion."""
