"""The limits that every door enforces, each named in the error that it causes."""

from typing import Final

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""Largest integer that RFC 8785 carries exactly; larger ones travel as strings."""

KEY_BYTES: Final = 512
SCOPE_BYTES: Final = 64
CONTENT_BYTES: Final = 1 << 20
CONTENT_DEPTH: Final = 64
BATCH_BYTES: Final = 8 << 20
BATCH_CHANGES: Final = 10_000
BULK_BATCHES: Final = 100
BULK_BYTES: Final = 32 << 20
SEQUENCE_WINDOW: Final = 1_024
"""How far a batch may run ahead of the contiguous prefix of its branch."""

EVIDENCE_BYTES: Final = 4 << 20
EVIDENCE_BRANCH_BYTES: Final = 256 << 20
CAPSULE_BYTES: Final = 16 << 10
CHECKPOINTS_BRANCH: Final = 10_000
ARCHIVE_BYTES: Final = 4 << 30
ARCHIVE_RATIO: Final = 100
LINE_RECORDS: Final = 5_000_000
LINE_SCOPES: Final = 32
FOLLOWER_EVENTS: Final = 1_024
FOLLOWER_BYTES: Final = 1 << 20
"""What waits for one follower of a feed; beyond either the stream ends."""

PAGE_DEFAULT: Final = 100
PAGE_MAX: Final = 1_000
PAGE_BYTES: Final = 4 << 20
"""Of contents, from which on a page ends early: a thousand of a megabyte each would fill a process' memory."""

REVIEW_BYTES: Final = 64 << 10
SOURCES_PER_CHANGE: Final = 32
TTL_SECONDS: Final = 2**31 - 1
"""Longest time after which a finished job is deleted, as Kubernetes' own jobs have it."""

KV_NAMESPACES: Final = 32
"""Key-value namespaces of a branch;"""

KV_ENTRIES: Final = 100_000
"""records of one of them,"""

KV_BYTES: Final = 256 << 20
"""and bytes of its keys and values."""

KV_MEMORY_BYTES: Final = 16 << 10
KV_MEMORY_KEY_BYTES: Final = 256
KV_MEMORY_TAGS: Final = 8
KV_METADATA_BYTES: Final = 8 << 10
KV_CAPSULE_REFERENCES: Final = 64
TEXT_PATTERN: Final = r"^[^\x00]*$"
"""Free text: anything but NUL, which Postgres cannot keep."""

TASK_BYTES: Final = 1_024
IN_LOOP_BYTES: Final = 32 << 10
"""Up to here parsing takes about a millisecond; larger bodies are parsed beside the event loop."""

SEARCH_TEXT: Final = 1_024
"""Characters of what is searched for."""

SEARCH_WORDS: Final = 32
"""Different words in it."""

SEARCH_PAGE_DEFAULT: Final = 10
SEARCH_PAGE_MAX: Final = 100
SEARCH_DEPTH: Final = 1_000
HYBRID_DEPTH: Final = 200
"""Results of a search, all pages together: who has not found it there asks in other words."""

RECALL_TASKS: Final = 500
"""Tasks of an evaluation set."""

RECALL_KEYS: Final = 32
"""Keys that one of them names, of each kind."""

RECALL_BYTES: Final = 1 << 20
"""An evaluation set as JSON Lines: what a ConfigMap holds."""

RECALL_DEPTH: Final = 100
"""How many hits a task may be judged by."""

MEMORY_SECTION_BYTES: Final = 256 << 10
"""A section of an agent's memory, or an item of one;"""

MEMORY_BYTES: Final = 4 << 20
"""all that an instance of an agent writes down,"""

MEMORY_ITEMS: Final = 1_000
"""and into how many pieces."""

MEMORY_INSTANCES: Final = 1_000
"""Instances as which one agent writes."""

MEMORY_HISTORY: Final = 5
"""Former contents of an item that are kept,"""

MEMORY_HISTORY_OF_REMOVED: Final = 20
"""and of items that are gone, all together."""

LOOK_ITEMS: Final = 100
LOOK_BYTES: Final = 1 << 20
"""What one look at an agent's other instances gives, or at what a section said before."""

EXCHANGES_KEPT: Final = 50
EXCHANGE_PARTICIPANTS: Final = 8
EXCHANGE_TURNS: Final = 100
TURN_CHARACTERS: Final = 16 << 10
TAKEAWAY_CHARACTERS: Final = 280
SURFACE_ID_BYTES: Final = 128
SURFACE_LABEL_CHARACTERS: Final = 64
PEERS: Final = 8
PEER_BYTES: Final = 100
"""Together these bound an exchange, so that any one fits a digest."""

DIGEST_ENTRIES: Final = 5
DIGEST_BYTES: Final = 2_560
EVENTS_CLAIMED: Final = 100
EVENT_ATTEMPTS: Final = 3
CLAIM_SECONDS: Final = 600
CLAIM_SECONDS_MIN: Final = 10
CLAIM_SECONDS_MAX: Final = 3_600
CLAIM_WAIT_SECONDS: Final = 30
"""For how long a claim waits for an event, at most."""

MERGE_INPUTS: Final = 32
"""Candidates that one merge is made of,"""

JOB_DRAFTS: Final = 100
JOB_DRAFTS_BYTES: Final = 16 << 20
"""and texts that one person, or model, has written for a job, and their bytes together."""
