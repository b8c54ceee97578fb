"""Speaks to Redis: one server, a primary behind Sentinels, or a cluster; runs the Lua scripts."""
