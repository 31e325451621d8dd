"""Emit a program's classes as Python source."""
