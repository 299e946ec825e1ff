"""Answers to look at: figures, pages and traces."""
