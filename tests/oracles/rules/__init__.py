"""One module per dialect: what its servers insist on beyond the shape of the body."""
