"""What a running process tells of itself: metrics, logs, and whether it lives and can work."""
