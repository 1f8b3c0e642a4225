"""The review page: HTML for people who decide, over the calls of the HTTP API, with no build step and no state.

Everything that it shows was written by agents, and is taken for hostile: it is escaped where it is put into a page, and
no page may run or load anything but this package's own files.
"""
