"""What related dialects share: APIs of the Chat Completions shape, and the two dialects of OpenAI."""
