"""Where a probe runs: each kind of host is one module that follows ``base.Host``."""
