"""What a call can raise. Each text is ready to print: what happened, with the numbers, and what to do."""

from http import HTTPStatus

import httpx
from pydantic import ValidationError

from horizon_app.contracts import problems
from horizon_app.contracts.problems import FieldProblem, Problem


class HorizonError(Exception):
    """Root of what the client raises; `problem` is the server's own account where it gave one."""

    def __init__(self, message: str, problem: Problem | None = None) -> None:
        self.problem = problem
        self.errors: list[FieldProblem] = [] if problem is None else list(problem.errors)
        super().__init__(message)


class ServerUnreachable(HorizonError):
    """No server answers at the address, or it went away before it answered."""


class BadAnswer(HorizonError):
    """What answered does not speak as a Horizon server of this version does."""


class NotFound(HorizonError):
    """There is no such run, checkpoint or route."""


class Conflict(HorizonError):
    """The state of the run does not allow it."""


class OutOfDate(Conflict):
    """Somebody has changed it since you looked."""


class Unauthorized(HorizonError):
    """The server wants a token, or another one, or does not let this request in."""


class OtherServer(Unauthorized):
    """What answers at the address does not know the token, which was therefore not sent."""


class RequestRefused(HorizonError):
    """The request makes no sense; `errors` has one entry per faulty field."""


class SpecRefused(HorizonError, problems.SpecRefused):
    """The spec can't run; `errors` has one entry per faulty field."""

    def __init__(self, message: str, problem: Problem) -> None:
        problems.SpecRefused.__init__(self, problem.errors or [FieldProblem(field="", message=message)])
        self.problem = problem


class ServerFailed(HorizonError):
    """The server made a mistake, or can't do it now."""


class RunFailed(HorizonError):
    """A run that was waited for failed, or its worker vanished."""


class WaitTimeout(HorizonError, TimeoutError):
    """A run that was waited for has not ended in the given time; it goes on."""


_BY_STATUS: dict[int, type[HorizonError]] = {
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.FORBIDDEN: Unauthorized,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.PRECONDITION_FAILED: OutOfDate,
}


def error_of(answer: httpx.Response) -> HorizonError:
    """The exception that an answer which is no success stands for."""
    if answer.is_redirect:
        return BadAnswer(
            f"{answer.request.url.copy_with(query=None)} answered {answer.status_code} and points to "
            f"{answer.headers.get('location', '')[:200]!r}, which is not followed: what is sent is for that server "
            "alone; give the address of the server itself"
        )
    problem = _problem_in(answer)
    if problem is None:
        said = f"{answer.request.url.copy_with(query=None)} answered {answer.status_code} {answer.reason_phrase}"
        kind = ServerFailed if answer.is_server_error else BadAnswer
        return kind(f"{said}, without saying why; is it a Horizon server?")
    message = problem.detail or problem.title
    if problem.type == "horizon:spec-refused":
        return SpecRefused(message, problem)
    kind = _BY_STATUS.get(answer.status_code, ServerFailed if answer.is_server_error else RequestRefused)
    return kind(message, problem)


def _problem_in(answer: httpx.Response) -> Problem | None:
    if "json" not in answer.headers.get("content-type", ""):
        return None
    try:
        return Problem.model_validate_json(answer.content)
    except ValidationError:
        return None
