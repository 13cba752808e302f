"""Measuring retrieval: data sets, the metric, the rankers that are compared, and one process for each pair."""
