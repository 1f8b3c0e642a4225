"""The ``anabranch`` command: each command parses, calls one function of a lower layer, and prints."""
