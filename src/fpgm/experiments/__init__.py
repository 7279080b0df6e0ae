"""Which runs make which table of the paper, and how they are computed: here, in processes, or on a Ray cluster."""
