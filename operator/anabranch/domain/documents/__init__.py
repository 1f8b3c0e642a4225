"""Files as records: what `anabranch import` and a ConfigMap import make of Markdown, JSON, YAML and JSON Lines.

A memory that agents share is only as good as its pieces: a whole runbook as one record buries the one paragraph that a
finding corrects, and two agents who mend different paragraphs would conflict. So Markdown is cut at its headings and a
list of records stays a list of records. Splitting is pure: it is given a path and bytes, and gives back records; who
reads the files, and where the records go, is the caller's matter.
"""

from anabranch.domain.documents.record import DocumentRecord, Visibility
from anabranch.domain.documents.split import DocumentFormat, document_format, import_locator, split, split_lines

__all__ = [
    "DocumentFormat",
    "DocumentRecord",
    "Visibility",
    "document_format",
    "import_locator",
    "split",
    "split_lines",
]
