"""Packages of this project, built and tried in clean roots of the distributions that they are for."""
