"""The fuzz lane: whatever comes in, what goes out is an answer or an error of ours. Bounded to about a minute."""
