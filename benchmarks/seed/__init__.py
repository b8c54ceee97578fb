"""The customer's design as it is written: one JSON document per call, SET/GET, SCAN watchdog.

Five places where the text leaves a choice, each decided in the seed's favour: the caller's process
gets the reply as the Celery task's result, which is pushed (polling by GET is slower at one call
and costs far more at many); the document is written only where something in it changes; the
watchdog scans every five seconds, not every one; procedures are loaded before the workers fork;
and at most 64 requests are answered at once, because redis-py's connections end at a hundred. One
is the customer's own: the packages celery and redis do not bring hiredis (`packages/hiredis.py`).
"""
