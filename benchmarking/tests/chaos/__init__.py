"""Jobs whose processes, servers, machines and connections are killed while they run."""
