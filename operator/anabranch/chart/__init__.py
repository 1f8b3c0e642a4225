"""The Helm chart's generated half: what it shares with the code, written from the code, so they cannot differ."""
