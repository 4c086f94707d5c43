"""What every attack is made of: the problem, losses, steps, constraints, and the way to an outcome."""
