"""Shared by the dialects that Bedrock serves: errors, headers, and events in chunks."""
