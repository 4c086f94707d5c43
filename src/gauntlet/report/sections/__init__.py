"""The sections of a report: each module turns the evaluations of one scope into blocks."""
