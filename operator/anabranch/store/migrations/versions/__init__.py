"""One migration a pair of files: the SQL, and its place in the order."""
