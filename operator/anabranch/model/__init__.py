"""The words of the system: objects, identifiers, canonical bytes, limits and errors. Pure; imports no other layer."""
