"""What every dialect must hold: found by name, so that a new one is tested by being there."""
