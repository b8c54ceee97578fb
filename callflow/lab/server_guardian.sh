#!/bin/sh
# Runs one Redis server for one owner, and ends it with that owner, however the owner ends.
#
#   server_guardian.sh BINARY SCRATCH
#
# BINARY   the server to run
# SCRATCH  a directory to remove in the end, or "" to remove nothing
# stdin    a pipe whose write end only the owner has. First the server's configuration, ended by an
#          empty line: so the password stands in no argument list and in no file. Then nothing,
#          until the owner writes "keep" (end the server, keep SCRATCH) or is no more.
# stdout   the server's process id, once
# stderr   held open by the server alone, so its end tells the owner that the server is no more
#
# Inherited descriptors (the lock on the data directory) pass on to the server: the directory stays
# locked until the last of owner, guardian and server has let go of it.

main() {
    binary=$1 scratch=$2 config='' server='' order=''

    # Told to end, the guardian takes the server with it; the signal interrupts the reads below.
    trap : HUP INT TERM

    while IFS= read -r line && [ -n "$line" ]; do
        config="$config$line
"
    done
    # No empty line, so no whole configuration: the owner died while it wrote. Start nothing.
    if [ -n "$config" ] && [ -z "$line" ]; then
        printf '%s' "$config" | "$binary" - >&2 &
        server=$!
        echo "$server"
    fi
    exec >/dev/null 2>&1

    # `read` is part of the shell, so a server that died by itself is not waited for here: it stays
    # a zombie, and its process id cannot come to name another process before we kill it.
    read -r order
    if [ -n "$server" ]; then
        # KILL loses nothing: a server answers only after it has written its append-only file.
        kill -KILL "$server"
        wait
    fi
    if [ "$order" != keep ] && [ -n "$scratch" ]; then
        rm -rf "$scratch"
    fi
}

main "$@"
