"""The command line: a file per group of commands, each a door to what the rest of the package does.

Everything that takes time to import is imported inside the commands, so that `callflow --help` and
a mistyped option are answered at once.
"""

from __future__ import annotations

import typer

from callflow.cli import (
    call,
    calls_commands,
    doctor,
    eval,
    lab_commands,
    phone,
    records,
    sites_commands,
    sop_commands,
    start_commands,
    twilio_commands,
    users,
)
from callflow.cli.terminal import PlainErrors

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
kept = typer.Typer(no_args_is_help=True, help="The records that last, and the test calls.")
sop = typer.Typer(no_args_is_help=True, help="Standard operating procedures.")
sites = typer.Typer(no_args_is_help=True, help="Lifts, and whom to ring for them.")
people = typer.Typer(no_args_is_help=True, help="Who may sign in to the board.")
twilio = typer.Typer(no_args_is_help=True, help="What the carrier must be told.")

app.command("demo")(lab_commands.demo)
app.command("chaos")(lab_commands.chaos)
app.command("up")(start_commands.up)
app.command("web")(start_commands.web)
app.command("phone")(phone.phone)
app.command("call")(call.call)
app.add_typer(calls, name="calls")
app.add_typer(kept, name="records")
app.command("doctor")(doctor.doctor)
app.command("sweep")(calls_commands.sweep)
app.command("eval", cls=eval.EvalCommand)(eval.evaluate)
app.add_typer(sop, name="sop")
app.add_typer(sites, name="sites")
app.add_typer(twilio, name="twilio")
app.add_typer(people, name="users")

calls.command("ls")(calls_commands.list_calls)
calls.command("show")(calls_commands.show)
calls.command("fact")(calls_commands.record_facts)
calls.command("note")(calls_commands.add_note)
calls.command("urgency")(calls_commands.set_urgency)
calls.command("end")(calls_commands.end)
calls.command("watch")(calls_commands.watch)
kept.command("ls")(records.ls)
kept.command("show")(records.show)
kept.command("export")(records.export)
kept.command("verify")(records.verify)
kept.command("erase")(records.erase)
kept.command("tests")(records.ledger)
sop.command("new")(sop_commands.new)
sop.command("check")(sop_commands.check)
sop.command("index")(sop_commands.index)
sop.command("test")(sop_commands.try_out)
sites.command("check")(sites_commands.check)
people.command("add")(users.add)
people.command("ls")(users.ls)
people.command("rm")(users.rm)
people.command("password")(users.password)
people.command("role")(users.role)
people.command("log")(users.log)
twilio.command("fallback")(twilio_commands.fallback)
twilio.command("setup")(twilio_commands.setup)
