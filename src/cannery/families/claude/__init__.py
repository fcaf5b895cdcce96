"""Shared by the two dialects that serve Claude models: the differences between models, and thinking settings."""
