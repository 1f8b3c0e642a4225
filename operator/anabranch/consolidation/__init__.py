"""From finding to fact: receipt, import, validation, review, publication.

The heart of the system. A finding is durable before it is acknowledged, and each step from there is one transaction
that may be lost or repeated without harm: whoever holds the job's lease goes on from its last durable state, and the
fence keeps everybody else from going on too. What waits for a person waits in the database and holds nobody up.
"""
