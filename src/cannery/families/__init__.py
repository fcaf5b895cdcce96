"""Code shared by related dialects: Chat Completions shape, content blocks, and the dialects of one vendor."""
