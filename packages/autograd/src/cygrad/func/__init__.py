"""Transforms of functions: each takes a function and returns another one."""
