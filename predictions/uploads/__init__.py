"""Networks that people bring: private, behind a link that nobody can guess, gone in 30 days."""
