"""A fleet of simulated devices: real HTTP, real sealing, own coins."""
