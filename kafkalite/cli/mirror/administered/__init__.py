"""What administrators have set in a cluster: its form, and how it is read from either side."""
