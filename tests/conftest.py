"""Settings for all tests: a slow machine must not make a test fail."""

from hypothesis import settings

settings.register_profile("any-machine", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("any-machine")
