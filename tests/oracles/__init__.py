"""Independent judges of wire bodies: they read JSON and bytes only, never the code under test.

- `corpus`: the bodies and transcripts of `tests/data/dialects`.
- `sdk_types`: strict findings by the official SDKs' own types.
- `server_rules`: what servers insist on beyond the shape.
- `leaves`: what a translation lost, and whether a loss names it.
- `sdk_streams`: what the SDKs' own parsers make of a stream or a whole response.
- `stream_wholes`: what stands around an answer by its stream, and by its whole body.
- `stream_rules`: the order that each dialect's events must keep.
"""
