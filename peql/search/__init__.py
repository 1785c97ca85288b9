"""The search over forms: which units are in use. Built on the engine's formula and criterion."""
