"""What a model may add to a review: proposals, which people decide on like any other candidate.

A finding that contradicts a record waits for a reviewer, and often the two can both be right. A model is good at
writing the sentence that says so, and bad at knowing whether it is true. So it writes, and nobody takes its word: what
comes back is a candidate with the sources of what it was made from, set here and never by the model; it waits for a
review whatever the policy says; and it is marked as a model's wherever it is shown.

`config` says which models there are, `endpoint` asks one and `breaker` leaves it alone where that is of no use,
`prompt` and `answer` are what is asked and what may come back, and `turn` is the part of the operator that does it.
"""
