"""What Google's two dialects share: models, errors, headers, and what both read, write and count alike."""
