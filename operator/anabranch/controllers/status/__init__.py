"""What each resource's status says, as functions of what Postgres has. Pure: the projector reads and writes."""

from anabranch.controllers.status.baseline import baseline_status
from anabranch.controllers.status.branch import branch_status
from anabranch.controllers.status.conditions import Seen, id_of
from anabranch.controllers.status.job import job_status
from anabranch.controllers.status.occurrences import occurrences
from anabranch.controllers.status.waiting import waiting_status

__all__ = ["Seen", "baseline_status", "branch_status", "id_of", "job_status", "occurrences", "waiting_status"]
