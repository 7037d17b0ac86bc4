"""What holds for all tests: a slow machine fails none of them."""

from hypothesis import settings

settings.register_profile("any-machine", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("any-machine")
