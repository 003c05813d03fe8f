"""Transforms to begin with, for `--transform module:function`."""
