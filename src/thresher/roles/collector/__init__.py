"""The collector: knows the devices, and not what they say."""
