"""A real cluster and a real Postgres on one machine, for the demo and the tests: no container engine, no account.

Nothing here is part of a production install. It exists so that what runs in a demo or a test is the real thing
(kube-apiserver with RBAC and admission, Postgres with passwords), and so that a missing right shows there first.
"""
