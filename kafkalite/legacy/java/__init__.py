"""What the tools print as Java prints it: values, exceptions, JSON."""
