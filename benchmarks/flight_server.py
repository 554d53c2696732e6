"""A small Flight SQL server on loopback with DuckDB behind it: enough of the protocol for a query and its records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as flight


class Server(flight.FlightServerBase):  # type: ignore[misc]
    """Answers `CommandStatementQuery`; prepared statements, sessions and what else there is are not implemented."""

    def __init__(self) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._database = duckdb.connect()

    def hold(self, name: str, table: pa.Table) -> None:
        """Makes a table of the database."""
        with self._database.cursor() as cursor:
            cursor.register("given", table)
            cursor.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")

    def get_flight_info(self, context: object, descriptor: Any) -> Any:
        """What a query returns, and the ticket for it."""
        command = dict(_fields(descriptor.command))  # a protobuf Any: its type, and the message
        if not command[1].endswith(b".CommandStatementQuery"):
            raise NotImplementedError(command[1].decode())
        query = dict(_fields(command[2]))[1]
        return flight.FlightInfo(self._asked(query).schema, descriptor, [flight.FlightEndpoint(query, [])], -1, -1)

    def do_get(self, context: object, ticket: Any) -> Any:
        """The records of a query."""
        return flight.RecordBatchStream(self._asked(ticket.ticket))

    def do_action(self, context: object, action: Any) -> Any:
        """None of them."""
        raise NotImplementedError(action.type)

    def _asked(self, query: bytes) -> pa.Table:
        with self._database.cursor() as cursor:
            return cursor.sql(query.decode()).to_arrow_table()


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The numbers and contents of a protobuf message's fields, all of which have a length."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while True:
            byte, at = message[at], at + 1
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    while at < len(message):
        key, length = number(), number()
        yield key >> 3, message[at : at + length]
        at += length


@contextmanager
def served() -> Iterator[Server]:
    """The server, as long as the block lasts."""
    server = Server()
    try:
        yield server
    finally:
        server.shutdown()
