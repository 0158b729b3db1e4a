"""How a broker routes: a strategy. `content` follows advertisements on an acyclic overlay."""
