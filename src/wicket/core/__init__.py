"""Decisions: which tools exist, which fit, who may call them, what an answer looks like."""
