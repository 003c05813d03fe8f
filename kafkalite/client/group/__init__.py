"""Membership in a consumer group: its protocol, assignors, session and committed offsets."""
