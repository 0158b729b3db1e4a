"""SLP1 and SLP: linear programs on samples, down the tree level by level."""
