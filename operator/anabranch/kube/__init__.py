"""The Kubernetes API, and nothing else: a thin typed client, and one module for each thing that is asked of it."""
