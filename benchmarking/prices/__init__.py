"""What machines cost now, from the price lists of those who rent them out."""
