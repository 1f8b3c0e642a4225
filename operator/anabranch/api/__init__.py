"""The HTTP API: the only place that knows HTTP. Handlers parse, call one service function, and answer."""
