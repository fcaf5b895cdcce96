"""What the two dialects share in which Claude models are asked: what models differ in, and how much they think."""
