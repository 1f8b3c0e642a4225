"""The demo: the proposal's story, told by real agents' identities on a real API server and a real Postgres."""
