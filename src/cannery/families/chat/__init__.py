"""APIs of the Chat Completions shape: messages with a role and content, calls as a list beside it."""
