"""Hypothesis strategies that draw wire bodies from the shapes of each dialect."""
