"""Sessions: look before you choose, and top up what was released."""

from residua.session.adapting import Adapted
from residua.session.choice import Choice, GroupChoice
from residua.session.recommend import Recommendation, Verdicts
from residua.session.session import Session

__all__ = ["Adapted", "Choice", "GroupChoice", "Recommendation", "Session", "Verdicts"]
