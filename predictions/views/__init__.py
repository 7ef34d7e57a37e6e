"""The pages: each view parses, calls and renders."""
