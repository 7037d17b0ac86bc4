"""Settings for all tests: neither a slow machine nor the way in which they are started makes a test fail."""

import signal

from hypothesis import settings

settings.register_profile("any-machine", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("any-machine")

# A shell starts a background command with SIGINT ignored, and programs inherit that. They do not inherit a handler.
signal.signal(signal.SIGINT, signal.default_int_handler)
