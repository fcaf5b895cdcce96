"""The gateway, seen by its clients and its upstreams."""
