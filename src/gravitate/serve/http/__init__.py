"""What a node tells and takes over HTTP."""
