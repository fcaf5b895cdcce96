"""Shared by Ollama's two APIs: options, flat messages, responses and streams of lines."""
