"""Numbers people quote: shares, ratios, means, quantiles and the like, each with an interval that holds."""

from residua.quoting.quotable import Quotable
from residua.quoting.quoted import Quoted
from residua.quoting.terms import Answering, Points, Term

__all__ = ["Answering", "Points", "Quotable", "Quoted", "Term"]
