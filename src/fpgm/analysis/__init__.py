"""What the data say of the paper's premise: the frequency signature of polyp edges, and how specific it is."""
