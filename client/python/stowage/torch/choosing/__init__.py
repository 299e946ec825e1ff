"""The plan for a budget, and what runs it."""
