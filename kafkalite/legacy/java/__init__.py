"""Values, exceptions and JSON in the form in which Java prints them."""
