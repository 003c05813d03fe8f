"""The command `kafkalite`: one module or sub-package for each noun, `main` with the table of commands, and what all commands share:

`output` (shapes, exit codes), `calls` and `admin_call` (connections to a cluster), `progress`, `confirmation`, `visibility`.
"""
