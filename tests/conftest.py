"""What all tests share: a property is checked by its examples, and never by the clock of the machine that runs it."""

from hypothesis import HealthCheck, settings

settings.register_profile("thresher", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("thresher")
