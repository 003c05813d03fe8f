"""The jobs, one file each: `plan` says what is to be read, `transform` what is made of it, `main` does it."""
