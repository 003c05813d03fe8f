"""`kafkalite mirror verify`: whether source and target have the same records."""
