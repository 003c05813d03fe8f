"""What blocking clients share: an event loop on a thread, and calls into it."""
