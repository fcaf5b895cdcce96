"""What dialects share: the contract, typed reads with paths, residue, media, server-sent events, losses."""
