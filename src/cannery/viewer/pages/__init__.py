"""The pages: each module renders one kind, as HTML and as JSON values."""
