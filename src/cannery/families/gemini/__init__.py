"""What Google's two dialects share: models, errors, headers."""
