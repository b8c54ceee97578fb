"""The command line: one file per command, each a door to what the rest of the package does.

Everything that takes time to import is imported inside the commands, so that `callflow --help` and
a mistyped option are answered at once.
"""

from __future__ import annotations

import typer

from callflow.cli import (
    call,
    calls_fact,
    calls_ls,
    calls_show,
    calls_watch,
    chaos,
    demo,
    doctor,
    eval,
    phone,
    sites_check,
    sop_check,
    sop_index,
    sop_new,
    sop_test,
    sweep,
    twilio_fallback,
    twilio_setup,
    up,
    web,
)
from callflow.cli.failure import PlainErrors

app = typer.Typer(
    name="callflow",
    help="Answers emergency calls from lifts; any of its processes may die at any moment.",
    cls=PlainErrors,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
calls = typer.Typer(no_args_is_help=True, help="Look at calls: list them, read one, watch all.")
sop = typer.Typer(no_args_is_help=True, help="Standard operating procedures.")
sites = typer.Typer(no_args_is_help=True, help="Lifts, and whom to ring for them.")
twilio = typer.Typer(no_args_is_help=True, help="What the carrier must be told.")

app.command("demo")(demo.demo)
app.command("chaos")(chaos.chaos)
app.command("up")(up.up)
app.command("web")(web.web)
app.command("phone")(phone.phone)
app.command("call")(call.call)
app.add_typer(calls, name="calls")
app.command("doctor")(doctor.doctor)
app.command("sweep")(sweep.sweep)
app.command("eval")(eval.evaluate)
app.add_typer(sop, name="sop")
app.add_typer(sites, name="sites")
app.add_typer(twilio, name="twilio")

calls.command("ls")(calls_ls.ls)
calls.command("show")(calls_show.show)
calls.command("fact")(calls_fact.fact)
calls.command("watch")(calls_watch.watch)
sop.command("new")(sop_new.new)
sop.command("check")(sop_check.check)
sop.command("index")(sop_index.index)
sop.command("test")(sop_test.try_out)
sites.command("check")(sites_check.check)
twilio.command("fallback")(twilio_fallback.fallback)
twilio.command("setup")(twilio_setup.setup)
