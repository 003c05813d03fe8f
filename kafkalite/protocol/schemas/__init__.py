"""Message schemas, and the readers and writers that are generated from them.

Only `messages`, `codec` and `bounds` use this package.
"""
