"""The routes, a module for each kind of thing. All but health live below one namespace."""
