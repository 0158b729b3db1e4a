"""Files people write: networks, scenarios, plans. Read, validated, never executed."""
