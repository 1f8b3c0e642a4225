"""How fast Anabranch is, next to peers that run in the same minute: ``python -m benchmarks all``."""
