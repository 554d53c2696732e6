"""Answers that could be true: non-negative, consistent tables nearest to a release."""
