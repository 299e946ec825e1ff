"""Servers: connections, who they trust, and what to do when one fails."""
