"""Machines of Amazon EC2, launched for one job each; only ``api`` knows boto3."""
