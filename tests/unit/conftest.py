"""Settings of the property tests: what they show must not depend on how busy the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile("anabranch", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("anabranch")
