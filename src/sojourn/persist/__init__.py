"""Save and load fitted models, and validate what was loaded before it is used.

May import: all packages above it. Start reading: `saving`.
"""
