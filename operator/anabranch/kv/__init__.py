"""The key-value contract on a branch: what clients of instantKV read and write lands in the private overlay."""
