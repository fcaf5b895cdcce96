"""Shared by OpenAI's two dialects: settings, errors, image detail."""
