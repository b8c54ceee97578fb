"""Celery, set up for calls: plain assignments, each with the reason beside it.

The record in Redis says what is owed; a Celery message is only a hint that may be lost, late or
doubled. So messages are taken early and never redelivered by Celery itself.
"""

from callflow.settings import load

_settings = load()

# --- Where the messages are --------------------------------------------------------------------

# The broker stays a small instance of its own when the state grows into a cluster: kombu has no
# cluster transport.
broker_url = _settings.queue_url or "redis://127.0.0.1:6379/0"

broker_transport_options = {
    # No `unacked` bookkeeping: the watchdog finds what a dead worker took, within seconds and not
    # after the visibility timeout, and eight Redis commands per task fall away.
    "ack_emulation": False,
    # Asked of Sentinels, where broker_url names them.
    "master_name": _settings.broker_service,
    # One list for each queue and not four: no message has a priority.
    "priority_steps": [0],
    # Takeovers are served before new work, whatever the backlog; the default alternates.
    "queue_order_strategy": "priority",
    # Behind a silent cut a consumer without these never consumes again.
    "socket_timeout": 2,
    "socket_connect_timeout": 1,
    "socket_keepalive": True,
    "health_check_interval": 2,
}

broker_connection_retry_on_startup = True  # a worker that starts before its broker waits for it
broker_connection_max_retries = None  # None is for ever; 0 and any number make the worker exit
broker_channel_error_retry = True  # a channel error reconnects instead of ending the consumer

# --- What a message is -------------------------------------------------------------------------

task_serializer = "json"  # never pickle: a message must not be able to run code
accept_content = ["json"]
result_serializer = "json"
task_ignore_result = True  # the reply is in the record; a result nobody reads costs eight commands
result_backend = None
task_store_errors_even_if_ignored = False
enable_utc = True

# --- Who takes which ---------------------------------------------------------------------------

task_default_queue = "turns"
task_create_missing_queues = True
task_routes = {
    "callflow.run_turn": {"queue": "turns"},
    # A queue of its own, served by a process of its own: behind 10,000 turns, or with every slot
    # busy, a sweep on a shared one comes too late.
    "callflow.sweep": {"queue": "watchdog"},
}

# --- How a worker works ------------------------------------------------------------------------

imports = ("callflow.tasks", "callflow.worker")
task_acks_late = False  # the record's own watchdog redoes a turn; Celery must not do it as well
worker_consumer = "callflow.worker:Consumer"  # gives back what it has taken and not begun
worker_prefetch_multiplier = 1
# No message waits in a busy worker while another worker is free. `callflow/worker.py` turns it off
# for pools of threads, where it costs throughput.
worker_disable_prefetch = True
worker_hijack_root_logger = False
worker_cancel_long_running_tasks_on_connection_loss = False  # the turn needs no broker to finish
# No time limits: a turn has its own deadline, and a wedged pool process ends itself. Celery's hard
# limit, fired for several children at once after a freeze, was seen to hang the worker for good.
task_time_limit = None
# SIGTERM drains (`callflow/worker.py`), as soon as turns are done. This is for SIGQUIT: Celery then
# waits so long, whatever is running, before it breaks into its turns, which hand their calls back.
worker_soft_shutdown_timeout = _settings.drain_s
worker_send_task_events = False  # `-E` turns them on for Flower: +3 commands, +25 % CPU per task
task_send_sent_event = False

# --- The watchdog's clock ----------------------------------------------------------------------

# Keeps no file, and does not spin before each sweep.
beat_scheduler = "callflow.worker:PunctualScheduler"
beat_schedule = {
    "sweep": {
        "task": "callflow.sweep",
        "schedule": _settings.sweep_interval_s,
        # A sweep that comes late has been overtaken by others: they never pile up.
        "options": {"expires": 2, "queue": "watchdog", "ignore_result": True},
    },
}

if _settings.archiving:
    beat_schedule["archive"] = {
        "task": "callflow.archive",
        "schedule": 2.0,
        # With the sweeps, whose worker has nothing else to do: a round runs beside them.
        "options": {"expires": 2, "queue": "watchdog", "ignore_result": True},
    }
