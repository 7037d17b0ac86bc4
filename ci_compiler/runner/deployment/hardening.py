"""What a controller's service may do on its machine: talk to GitHub and to the engine's socket, and no more.

It runs no job and builds nothing: the engine makes the containers, in a session of its own. So the service can give up
what a container engine needs (new privileges for newuidmap, devices, namespaces). Source: systemd.exec(5).
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
"""Settings of the service by name. The engine's socket lies below /run/user, which ProtectHome must leave in sight."""
