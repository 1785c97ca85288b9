"""What a solution is worth: errors, jumps, explanations, the verdict."""
