"""Whole jobs with every real part."""
