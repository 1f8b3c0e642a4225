"""What the operator tells: of its own work, and, while it leads, of what waits in Postgres."""

from __future__ import annotations

from typing import Final

from anabranch.telemetry.common import COMMON
from anabranch.telemetry.declaring import Metrics

OPERATOR: Final = Metrics("The operator", COMMON)

WAITING: Final = Metrics("The operator that leads")
"""Readings from Postgres, which belong to no process: only the leader tells them, as of its last look."""

OPERATOR_SHOWN: Final = Metrics("The operator, all of it", OPERATOR, WAITING)

# ------------------------------------------------------------------------------------------------------ this process

LEADER: Final = OPERATOR.reading("leader", "Whether this process leads: 1 or 0.", "store")

WATCH_AGE: Final = OPERATOR.reading(
    "watch_age_seconds",
    "Since a kind was last heard of, by a list, an event, or a watch that began; the API server ends one after two "
    "minutes. The leader's only.",
    "kind",
)

RECONCILES: Final = OPERATOR.histogram(
    "reconcile_duration_seconds",
    "Reconciliations of an object, by how they ended: done, refused (an error that says what to do), defect.",
    "kind",
    "outcome",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 120),
)

STATUS_WRITES: Final = OPERATOR.counter(
    "status_writes_total",
    "Statuses written: written, gone (its object is), theirs (another store has it), changed, refused, failed.",
    "kind",
    "outcome",
)

EXPIRED: Final = OPERATOR.counter(
    "resources_expired_total", "Finished Branches and jobs deleted after the time that their spec gives them.", "kind"
)

CLAIMS: Final = OPERATOR.counter("job_claims_total", "Times that a job was taken up.")

RECLAIMS: Final = OPERATOR.counter(
    "job_lease_reclaims_total", "Those of them in which its last holder had let the lease run out."
)

GIVEN_UP: Final = OPERATOR.counter("jobs_given_up_total", "Jobs that failed for good.")

ENDS: Final = OPERATOR.counter(
    "job_works_total",
    "Times that work on a job ended: advanced (as far as it could), failed, outage (to be repeated, and no attempt), "
    "fenced (somebody else has it), lease_lost, stopped.",
    "outcome",
)

FAILURES: Final = OPERATOR.counter(
    "job_failures_total", "Failed attempts at a job, by the code of the error; Unexpected is a defect.", "reason"
)

JOBS_AT_HAND: Final = OPERATOR.gauge("jobs_at_hand", "Jobs that this process works on.")

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60)

PUBLICATIONS: Final = OPERATOR.histogram(
    "publication_duration_seconds",
    "Publications of a generation: planning, preparing, and the transaction, with every time that it was planned anew.",
    buckets=_SECONDS,
)

LOCK_HELD: Final = OPERATOR.histogram(
    "publication_lock_seconds", "The part of it for which the line's head was locked.", buckets=_SECONDS
)

GROUPS: Final = OPERATOR.histogram(
    "publication_jobs", "Jobs that were published together as one generation.", buckets=(1, 2, 4, 8, 16, 32)
)

CHANGES: Final = OPERATOR.histogram(
    "publication_changes", "Records that a generation changed.", buckets=(1, 10, 100, 1_000, 10_000, 100_000)
)

REPLANS: Final = OPERATOR.counter(
    "publication_replans_total", "Publications planned anew, since another came in between or reviewers decided."
)

LATENCY: Final = OPERATOR.histogram(
    "batch_publication_seconds",
    "From the receipt of a batch to its publication, of those that waited for no reviewer.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 3_600),
)

SUGGESTIONS: Final = OPERATOR.counter(
    "review_suggestions_total",
    "Candidates that came to wait for a review and are shown with others that they are like.",
)

GROUPED: Final = OPERATOR.counter(
    "review_grouped_total",
    "Candidates that came to wait in a group of near-identical ones, which may be decided as one.",
)

DECISIONS: Final = OPERATOR.counter(
    "review_decisions_total",
    "Decisions on candidates that were taken over from jobs' resources, by action (accept, reject, withdraw) and by "
    "how they were made: single, group.",
    "action",
    "made",
)

SETTLED: Final = OPERATOR.counter(
    "review_settled_total",
    "Candidates that were accepted or rejected, by whom: policy, which asked no person, or reviewers.",
    "outcome",
    "by",
)

RETENTION_TURNS: Final = OPERATOR.histogram(
    "retention_turn_duration_seconds",
    "Turns of retention, a line each, by how they ended: done, more (there is more to remove), failed.",
    "outcome",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120),
)

INDEX_TURNS: Final = OPERATOR.histogram(
    "index_turn_duration_seconds",
    "Turns at the index that search looks at, a line each, by how they ended: done, failed.",
    "outcome",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120),
)

INDEXED: Final = OPERATOR.counter(
    "indexed_versions_total", "Versions of records that were put into the index, again when segments are put together."
)

EMBEDDING_TURNS: Final = OPERATOR.histogram(
    "embedding_turn_duration_seconds",
    "Turns at the vectors of searches by meaning, a segment of the index each, by how they ended: done, failed.",
    "outcome",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120, 600),
)

EMBEDDED: Final = OPERATOR.counter(
    "embedded_versions_total", "Versions of records that vectors were made of, again when segments are put together."
)

NOTICES: Final = OPERATOR.counter(
    "agent_notices_total", "Notices of what lines have done that agents were told, by kind.", "kind"
)

NOTICES_FAILED: Final = OPERATOR.counter(
    "agent_notices_failed_total", "Times that a notice could not be told; it comes up again."
)

QUALITY_TURNS: Final = OPERATOR.histogram(
    "quality_turn_duration_seconds",
    "Turns at counting what lines have (sources, verification, age), a line each, by how they ended: done, failed.",
    "outcome",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120),
)

RECALL_GATE: Final = OPERATOR.histogram(
    "recall_gate_duration_seconds",
    "Times that a publication was asked for its recall, by what came of it: passed, held, overruled (a reviewer had "
    "decided for it all the same), apart (several jobs together did not pass, and are tried one by one).",
    "outcome",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 120),
)

MODEL_REQUESTS: Final = OPERATOR.histogram(
    "model_request_duration_seconds",
    "Requests to models, by their name in the configuration and how they ended: answered, timeout, unreachable, "
    "throttled (429), failed (5xx), refused (another status, or a key that cannot be read), redirected, junk (no "
    "answer at all), stopped.",
    "model",
    "outcome",
    buckets=(0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600),
)

MODEL_TOKENS: Final = OPERATOR.counter(
    "model_tokens_total", "Tokens of requests and answers, as the models' APIs tell.", "model"
)

MODELS_LEFT_ALONE: Final = OPERATOR.gauge(
    "model_left_alone",
    "Whether a model is not asked for a while since it does not answer, as of the last look: 1 or 0.",
    "model",
)

PROPOSALS: Final = OPERATOR.counter(
    "model_proposals_total",
    "What came of asking a model about a key: proposed, or why there is no proposal, such as Declined, NotJson, "
    "InventedMember, or, where it gave no answer several times, Unanswered.",
    "model",
    "outcome",
)

BACKUPS: Final = OPERATOR.histogram(
    "backup_duration_seconds",
    "Backups of a line, by how they ended: done, ordered (of the database, and not made yet), failed.",
    "outcome",
    buckets=(0.1, 0.5, 1, 5, 30, 120, 600, 3_600),
)

# ------------------------------------------------------------------------------------------------------ in Postgres

READ_AT: Final = WAITING.reading("postgres_reading_timestamp_seconds", "When these were read, since the epoch.")

DUE: Final = WAITING.reading(
    "queue_due",
    "Rows that are due and that nobody has taken: jobs, visits (Baselines), waiting (resources that wait for another), "
    "retention (lines), notices (for agents; those that could not be told, too). Counted to 10,000.",
    "queue",
)

DUE_AGE: Final = WAITING.reading("queue_oldest_due_seconds", "Since the oldest of them is due.", "queue")

JOBS: Final = WAITING.reading("jobs", "Jobs that are not finished, by state.", "state")

JOBS_AGE: Final = WAITING.reading("job_oldest_seconds", "Since the oldest of them was made.", "state")

UNASSIGNED: Final = WAITING.reading(
    "batches_unassigned", "Batches received that are in no job yet. Counted to 100,000."
)

PENDING: Final = WAITING.reading("batches_pending", "Batches received and not decided yet, those in jobs included.")

CANDIDATES: Final = WAITING.reading(
    "candidates_waiting", "Candidates that wait for a reviewer. Counted to 100,000, as are the conflicts among them."
)

CONFLICTS: Final = WAITING.reading(
    "conflicts_open", "Candidates that contradict a published record and wait for a reviewer."
)

CONFLICT_AGE: Final = WAITING.reading("conflict_oldest_seconds", "Since the oldest of them waits; 0: there is none.")

AGENT_EVENTS: Final = WAITING.reading(
    "agent_events_open",
    "Events for agents that are not acknowledged, by status: pending, or claimed. Counted to 10,000, both together.",
    "status",
)

LAGGING: Final = WAITING.reading("statuses_lagging", "Objects whose status is older than Postgres, to 10,000.", "kind")

_BASELINE: Final = ("baseline_namespace", "baseline")

RECALL: Final = WAITING.reading(
    "baseline_recall",
    "Recall at k of what readers see, as far as it was asked (spec.recall). This and the following by Baseline, of the "
    "first 1,000 by namespace and name, once a minute.",
    *_BASELINE,
)

RECALL_CHANGE: Final = WAITING.reading(
    "baseline_recall_change", "That less the recall of the generation before, if that was asked the same.", *_BASELINE
)

RECALL_SHORT: Final = WAITING.reading(
    "baseline_recall_short",
    "Whether it is less than spec.recall allows, by floor or by maxRegression: 1 or 0.",
    *_BASELINE,
)

RECALL_MISSING: Final = WAITING.reading(
    "baseline_recall_tasks_missing",
    "Whether publications wait for the set of questions that spec.recall names: 1 or 0.",
    *_BASELINE,
)

VERIFIED: Final = WAITING.reading(
    "baseline_verified_ratio", "The share of its records that were verified, as far as they are counted.", *_BASELINE
)

BASELINE_CONFLICTS: Final = WAITING.reading(
    "baseline_conflicts_open", "Candidates that contradict a record of it and wait for a reviewer.", *_BASELINE
)

BASELINE_CONFLICT_AGE: Final = WAITING.reading(
    "baseline_conflict_oldest_seconds", "Since the oldest of them waits; 0: there is none.", *_BASELINE
)

BACKUPS_FAILING: Final = WAITING.reading(
    "backups_failing",
    "Baselines whose last attempt at a backup failed: nothing is published once the newest is too old.",
)

BACKUPS_FAILING_AGE: Final = WAITING.reading(
    "backup_oldest_failing_seconds", "Since the first of them has failed; 0: there is none."
)

BACKUPS_AWAITED: Final = WAITING.reading("backups_awaited", "Baselines whose publications wait for a backup.")

LINES: Final = WAITING.reading("lines", "Baselines that are not deleted.")

SCHEMA: Final = WAITING.reading("schema_info", "Always 1: the schema that the database has.", "schema")
