"""Shared by Google's two dialects: models, errors, headers, and common reading, writing and counting."""
