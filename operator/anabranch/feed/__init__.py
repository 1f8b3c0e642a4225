"""The feed of a line: what was published, withdrawn and moved, in commit order, for followers that come and go."""
