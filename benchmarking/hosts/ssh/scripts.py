"""The shell scripts that a host runs over SSH: POSIX sh, and what every Linux has.

Each is a function from values to a script; every value in it is quoted.
"""

from __future__ import annotations

import shlex

from benchmarking.hosts.base import PROBE_FILE
from benchmarking.hosts.launcher import (
    ERRORS_FILE,
    EXIT_CODE_FILE,
    NEVER_STARTED,
    PROCESS_FILE,
    RESULTS_FILE,
    SHOWN_ERROR_BYTES,
    Look,
    launch_script,
    parse_identity,
)

INTERRUPTED_FILE = "interrupted"
WATCHER_FILE = "spot_watcher.py"
LACKS_SPACE = 71
LACKS_PROGRAM = 72
LACKS_FOLDER = 74
LOOK_BYTES = 65_536

_FREE_KIB = 'df -Pk . | { read -r _; read -r _ _ _ free _; echo "$free"; }'

_PUT = """
mkdir -p {folder} && cd {folder} || exit
# A connection that is cut ends the input early and looks like its end, hence the count.
cat > {name}.partial && [ "$(wc -c < {name}.partial)" -eq {size} ] &&
mv {name}.partial {name} && exit
status=$?
rm -f {name}.partial
exit $status
"""

_START = """
cd {folder} || exit {lacks_folder}
[ -e {process} ] && exit 0
for program in {python} setsid nohup; do
    command -v "$program" > /dev/null || {{ echo "there is no $program"; exit {lacks_program}; }}
done
free=$({free_kib})
[ "$free" -ge {minimum_free_kib} ] || {{ echo "only $free KiB are free"; exit {lacks_space}; }}
{watcher}
setsid nohup /bin/sh -c {launcher} < /dev/null > /dev/null 2>&1 &
"""

_WATCHER = "setsid nohup {command} < /dev/null > /dev/null 2>&1 &"

# One line a value, in the order in which `read_look` takes them; the exit code comes after the
# processes, or a probe that ends in between would seem to have ended without one.
_LOOK = """
cd {folder} 2> /dev/null || exit {lacks_folder}
first= second= age=
if [ -e {process} ]; then
    {{ IFS= read -r first; IFS= read -r second; }} < {process}
    age=$(($(date +%s) - $(stat -c %Y {process})))
fi
printf '%s\\n' "$(cat /proc/sys/kernel/random/boot_id)" "$first" "$second" "$age"
pid=${{first%% *}}
case $pid in
'' | *[!0-9]*) echo ;;
*)
    own=$(cat "/proc/$pid/stat" 2> /dev/null)
    printf '%s\\n' "$own"
    case $own in
    '' | *') Z '*) cat /proc/[0-9]*/stat 2> /dev/null | grep " $pid " | head -n 100 ;;
    esac
    ;;
esac
echo .
if [ -e {interrupted} ]; then echo yes; else echo no; fi
{free_kib}
printf '%s\\n' "$(cat {exit_code} 2> /dev/null)"
tail -c {shown_bytes} {errors} 2> /dev/null
"""

_FETCH = """
cd {folder} 2> /dev/null && [ -e {results} ] || exit 0
tail -c +{first} {results} | head -c {maximum}
"""

_RELEASE = """
mkdir -p {folder} && cd {folder} && set -C && echo {never_started} > {process}
exit 0
"""

_CHECK = """
python={python}
command -v "$python" > /dev/null || {{ echo "there is no $python"; exit {lacks_program}; }}
"$python" -c 'import importlib.util as u, platform as p
print(p.python_version(), "yes" if u.find_spec("torch") else "no")' || exit
{free_kib}
"""


def put_script(folder: str, name: str, size: int) -> str:
    """Write standard input to a file of ``size`` bytes, whole or not at all."""
    return _PUT.format(folder=shlex.quote(folder), name=shlex.quote(name), size=size)


def start_script(
    folder: str, python: str, minimum_free_kib: int, watcher_arguments: list[str] | None
) -> str:
    """Start the probe in a session of its own, unless it was started before.

    Leaves with ``LACKS_SPACE``, ``LACKS_PROGRAM`` or ``LACKS_FOLDER`` where it cannot be.
    """
    watcher = ""
    if watcher_arguments is not None:
        command = shlex.join([python, WATCHER_FILE, *watcher_arguments])
        watcher = _WATCHER.format(command=command)
    return _START.format(
        folder=shlex.quote(folder),
        process=PROCESS_FILE,
        python=shlex.quote(python),
        free_kib=_FREE_KIB,
        minimum_free_kib=minimum_free_kib,
        watcher=watcher,
        launcher=shlex.quote(launch_script([python, PROBE_FILE])),
        lacks_folder=LACKS_FOLDER,
        lacks_program=LACKS_PROGRAM,
        lacks_space=LACKS_SPACE,
    )


def look_script(folder: str) -> str:
    """Print what ``read_look`` reads; leaves with ``LACKS_FOLDER`` where there is none."""
    return _LOOK.format(
        folder=shlex.quote(folder),
        process=PROCESS_FILE,
        interrupted=INTERRUPTED_FILE,
        free_kib=_FREE_KIB,
        exit_code=EXIT_CODE_FILE,
        errors=ERRORS_FILE,
        shown_bytes=SHOWN_ERROR_BYTES,
        lacks_folder=LACKS_FOLDER,
    )


def read_look(output: bytes) -> tuple[Look, int]:
    """What ``look_script`` has printed, and how many KiB are free on that disk.

    Raises ``ValueError`` if it is something else.
    """
    boot_id, first, second, age, *rest = output.decode(errors="replace").split("\n")
    end_of_stats = rest.index(".")
    stats = rest[:end_of_stats]
    interrupted, free_kib, exit_code, *errors = rest[end_of_stats + 1 :]
    process = f"{first}\n{second}\n" if second else first
    own_stat = stats[0] if stats and parse_identity(process) else ""
    look = Look(
        process=process,
        process_age_seconds=float(age) if age else None,
        boot_id=boot_id,
        own_stat=own_stat,
        all_stats=lambda: stats[1:],
        exit_code=exit_code,
        errors="\n".join(errors).strip(),
        is_interrupted=interrupted == "yes",
    )
    return look, int(free_kib)


def fetch_script(folder: str, offset: int, maximum_bytes: int) -> str:
    """Print at most ``maximum_bytes`` of the results from byte ``offset`` on."""
    return _FETCH.format(
        folder=shlex.quote(folder),
        results=RESULTS_FILE,
        first=offset + 1,
        maximum=maximum_bytes,
    )


def stop_script(process_group: int, *, force: bool) -> str:
    """Signal the probe, all processes of its group."""
    return f"kill -s {'KILL' if force else 'TERM'} -- -{process_group}"


def release_script(folder: str) -> str:
    """Take the place of a process, so that none can be started any more."""
    return _RELEASE.format(
        folder=shlex.quote(folder), process=PROCESS_FILE, never_started=NEVER_STARTED
    )


def check_script(python: str) -> str:
    """Print the version of ``python``, whether it has torch, and the free space in KiB."""
    return _CHECK.format(
        python=shlex.quote(python), lacks_program=LACKS_PROGRAM, free_kib=_FREE_KIB
    )
