"""A JSON-RPC error about a message itself, with its code and data."""

from wicket_mcp.errors import WicketError, to_rpc
from wicket_mcp.model import JsonObject


class RpcProblem(WicketError):
    """See the module's docstring."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        super().__init__(message)
        self.rpc_code = code
        self.data = data

    def to_error(self) -> JsonObject:
        error: JsonObject = {"code": self.rpc_code, "message": self.message}
        return error if self.data is None else {**error, "data": self.data}


def error_of(problem: WicketError) -> JsonObject:
    """The JSON-RPC error object of a problem."""
    return problem.to_error() if isinstance(problem, RpcProblem) else to_rpc(problem)
