"""One broker on an event loop: its clock, its effects, its traces, what it tells about itself."""
