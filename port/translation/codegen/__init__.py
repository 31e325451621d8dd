"""The program's classes as source."""
