"""Bytes and seconds of each layer, and what it may keep in part."""
