"""The admin client: one module for each noun, `admin` joins them, `sync` is the blocking twin."""
