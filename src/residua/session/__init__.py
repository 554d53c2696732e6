"""Sessions: look before you choose, and top up what was released."""

from residua.session.choice import Choice
from residua.session.groups import GroupChoice
from residua.session.recommend import Recommendation
from residua.session.session import Session
from residua.session.verdicts import Verdicts

__all__ = ["Choice", "GroupChoice", "Recommendation", "Session", "Verdicts"]
