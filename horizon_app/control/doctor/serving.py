"""The server: whether one runs, and whether its port is free."""

import socket

from horizon_app.contracts.checks import Check, Verdict
from horizon_app.control.doctor.kernel import check
from horizon_app.control.server_file import find_server
from horizon_app.settings import AppSettings


def serving_checks(settings: AppSettings) -> list[Check]:
    """One check."""
    server, title = find_server(settings.home), "Server and port"
    if server is not None:
        evidence = f"process {server.pid} serves this home folder on {server.host}, port {server.port}"
        return [check("port", title, evidence=evidence, fault=None)]
    where, threshold = f"{settings.host}, port {settings.port}", "free"
    taken = _refusal(settings.host, settings.port)
    fault = None
    if taken:
        fault = Verdict.WARNING, "`horizon serve` takes the next free port unless one is asked for with --port"
    evidence = f"no server runs on this home folder; {where} is {taken or 'free'}"
    return [check("port", title, evidence=evidence, threshold=threshold, fault=fault)]


def _refusal(host: str, port: int) -> str:
    """Why a server could not listen there now; empty where it could."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return f"not to be had ({error.strerror or error})"
    return ""
