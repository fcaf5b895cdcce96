"""Cannery, the conversation layer for LLM applications."""

from cannery.errors import CanneryError
from cannery.messages import *  # noqa: F403 - replaced by the sorted list of names when the parts are there
