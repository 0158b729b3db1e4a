"""What tables of the slow loop look like: schemas, and what several steps do with rows."""
