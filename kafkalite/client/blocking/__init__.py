"""What the blocking twins of the clients share: an event loop on a thread, and calls into it."""
