"""Models of several processes: who they are, and what is sharded or wrapped."""
