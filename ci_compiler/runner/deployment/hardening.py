"""Restrictions on a controller's service: it may talk to GitHub and to the engine's socket, and nothing else.

The service runs no job and builds nothing, since the engine creates the containers in a session of its own. So it can
do without what a container engine needs: new privileges for newuidmap, devices, namespaces. Source: systemd.exec(5).
"""

from __future__ import annotations

HARDENING: dict[str, str] = {
    "UMask": "0077",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "read-only",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectClock": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectProc": "invisible",
    "RemoveIPC": "yes",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "@system-service",
    "SystemCallErrorNumber": "EPERM",
}
"""Settings of the service by name. ProtectHome must keep /run/user visible, which holds the engine's socket."""
