"""Dialects whose messages are lists of content blocks: Anthropic Messages and Bedrock Converse."""
