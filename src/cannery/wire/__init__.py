"""The code that all dialects share: contract, typed reads with paths, residue, media, stream framing, losses."""
