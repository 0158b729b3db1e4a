"""How good a solution can be: a proven bound, and the optimum of small problems."""
