"""Every metric of a network, from the flow model or from a run; who should have got what."""
