"""A model as a service: examples in, predictions out, learning in between. Needs the extra `service`."""
