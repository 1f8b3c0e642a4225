"""What the API server's refusals mean to this system.

A refusal of *our own* account is never the caller's fault: it is an installation that lacks a right, so it is a 503
that names the right, not a 403 that would send the caller looking for a grant of theirs.
"""

from __future__ import annotations

from anabranch.model.errors import ConflictError, InvalidInputError, NotFoundError, UnavailableError


class ObjectNotFoundError(NotFoundError):
    """The Kubernetes object, or its whole kind, is not there."""


class AlreadyExistsError(ConflictError):
    """A Kubernetes object of that name is there already."""

    code = "AlreadyExists"


class StaleObjectError(ConflictError):
    """The object changed, or is another one of the same name: its uid or resourceVersion differs."""

    code = "StaleObject"


class ChangedObjectError(ConflictError):
    """The object was changed since it was read."""

    code = "ChangedObject"


class ObjectRefusedError(InvalidInputError):
    """The schema or an admission policy refused the object."""

    code = "ObjectRefused"


class RightMissingError(UnavailableError):
    """This process' own account lacks a right, or its credentials are refused."""

    code = "RightMissing"
