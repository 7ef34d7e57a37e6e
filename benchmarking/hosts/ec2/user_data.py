"""What a launched machine is told at its boot: when to end at the latest, and who may log in.

cloud-init gets a MIME archive of three parts. The boothook runs first of all, before any module
of cloud-init and before the SSH server is up. It arms the end of the machine, which then needs
nothing of this site. The cloud-config part installs the one host key that workers accept and the
login key. The script comes last and switches the machine off if the keys are not in their place.

The same arguments give the same bytes, so that a repeated launch sends the same request.
"""

from __future__ import annotations

import json
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

MAXIMUM_BYTES = 16 * 1024
"""What EC2 accepts, before base64."""

_BOUNDARY = "===============epochcast=="

# logind counts down for `shutdown`, and comes up after this runs. Asked too early, some versions
# of systemd switch off at once and others do nothing (systemd issue 17575), so that the first
# line waits for it, beside the boot. The timer behind it is systemd's own and needs nobody.
_BOOTHOOK = """#cloud-boothook
#!/bin/sh
(until systemctl -q is-active systemd-logind; do sleep 1; done; exec shutdown -P +{minutes}) \
</dev/null >/dev/null 2>&1 &
systemd-run --no-block --unit=epochcast-end --on-active={belt_minutes}min \
--timer-property=DefaultDependencies=no --property=DefaultDependencies=no \
systemctl poweroff --force || shutdown -P now
"""

_CHECK = """#!/bin/sh
grep -qF '{host_public_key}' /etc/ssh/ssh_host_ed25519_key.pub &&
grep -qF '{login_public_key}' "$(getent passwd '{user}' | cut -d: -f6)/.ssh/authorized_keys" ||
shutdown -P now
"""

# How much later the second switch acts: only if the first one did not.
_BELT_MINUTES = 2


def build_user_data(
    *,
    shutdown_minutes: int,
    user: str,
    login_public_key: str,
    host_private_key: str,
    host_public_key: str,
) -> bytes:
    """The user data of one launch.

    Parameters
    ----------
    shutdown_minutes
        From the boot until the machine switches itself off, which terminates it.
    user
        Who logs in: made the image's default user.
    login_public_key, host_public_key
        As in ``authorized_keys``.
    host_private_key
        PEM, as OpenSSH writes it.

    Raises
    ------
    ValueError
        If it is more than EC2 takes.
    """
    archive = MIMEMultipart(boundary=_BOUNDARY)
    boothook = _BOOTHOOK.format(
        minutes=shutdown_minutes, belt_minutes=shutdown_minutes + _BELT_MINUTES
    )
    archive.attach(MIMEText(boothook, "cloud-boothook", "us-ascii"))
    configuration = {
        "user": {"name": user},
        "ssh_authorized_keys": [login_public_key],
        "ssh_deletekeys": True,
        "ssh_keys": {"ed25519_private": host_private_key, "ed25519_public": host_public_key},
        "ssh_pwauth": False,
        "disable_root": True,
    }
    # JSON is YAML, and needs no package to be written.
    text = "#cloud-config\n" + json.dumps(configuration, indent=1) + "\n"
    archive.attach(MIMEText(text, "cloud-config", "us-ascii"))
    check = _CHECK.format(
        host_public_key=_key_body(host_public_key),
        login_public_key=_key_body(login_public_key),
        user=user,
    )
    archive.attach(MIMEText(check, "x-shellscript", "us-ascii"))
    data = archive.as_bytes()
    if len(data) > MAXIMUM_BYTES:
        raise ValueError(f"user data of {len(data)} bytes; EC2 takes {MAXIMUM_BYTES}")
    return data


def _key_body(public_key: str) -> str:
    """Type and key without the comment."""
    return " ".join(public_key.split()[:2])
