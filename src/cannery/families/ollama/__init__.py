"""What Ollama's two APIs share: options, flat messages, answers and streams of lines."""
