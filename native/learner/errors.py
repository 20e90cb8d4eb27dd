"""Errors whose message reaches the user as it is."""


class Refused(Exception):
    """The learner will not do this, and would not the next time. One line: what is wrong and how to mend it."""
