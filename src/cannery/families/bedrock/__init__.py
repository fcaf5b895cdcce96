"""What the dialects share that Bedrock serves: errors, headers, and events in chunks."""
