"""How programs write their chats: every module here is one format and has one value, ``FORMAT``."""
