"""What flows: values, events, filters, subscriptions, advertisements, moves."""
