"""Independent judges of wire bodies: they read JSON and bytes only, never the code under test."""
