"""A solution made better: smaller filters, blocks of subscribers moved, moves worth making."""
