"""The pages: each module makes one kind, as HTML and as the values of its JSON twin."""
