"""Conversations as documents: each module writes one kind of page, and nothing in it can run."""
