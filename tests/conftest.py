"""Settings for all tests."""

from hypothesis import settings

# No deadline: dense brute force is slow on a busy machine. The same examples every time: a red run can be repeated.
settings.register_profile("laws", deadline=None, derandomize=True)
settings.load_profile("laws")
