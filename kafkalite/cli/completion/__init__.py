"""`kafkalite completion`, and the candidates that a shell gets at TAB."""
