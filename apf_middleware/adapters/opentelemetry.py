"""A propagator for OpenTelemetry, for clients that it instruments.

So all of them pass on what is known about the current request::

    own = RequestPropagator(DeadlineHeaders({"baggage": "baggage"}), CriticalityHeaders({"baggage": "baggage"}))
    propagators = [TraceContextTextMapPropagator(), W3CBaggagePropagator(), own]
    set_global_textmap(CompositePropagator(propagators))

It comes after the propagator of baggage, to which it adds members. What is told is right at the moment of each call.
"""

from collections.abc import Mapping

from apf_middleware.exceptions import MissingExtraError
from apf_middleware.propagation.outgoing import OutgoingHeaders

try:
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.propagators import textmap
except ImportError:
    raise MissingExtraError("opentelemetry-api", "otel") from None

__all__ = ["RequestPropagator"]


class RequestPropagator(textmap.TextMapPropagator):
    """Write the headers of ``told`` into outgoing requests; from incoming ones the middleware itself reads them."""

    def __init__(self, *told: OutgoingHeaders) -> None:
        self._told = told
        self._baggage = W3CBaggagePropagator()

    def inject(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        setter: textmap.Setter[textmap.CarrierT] = textmap.default_setter,
    ) -> None:
        present: dict[str, str] = {}
        if isinstance(carrier, Mapping):
            for name, value in carrier.items():  # there may be several of one name
                if isinstance(value, str):
                    key = name.lower()
                    present[key] = f"{present[key]},{value}" if key in present else value
        else:  # such as the list of headers of a message, which can't be searched
            self._baggage.inject(present, context)
        for one in self._told:
            found = one.headers(present)
            present |= found
            for name, value in found.items():
                setter.set(carrier, name, value)

    def extract(
        self,
        carrier: textmap.CarrierT,  # noqa: ARG002
        context: Context | None = None,
        getter: textmap.Getter[textmap.CarrierT] = textmap.default_getter,  # noqa: ARG002
    ) -> Context:
        return Context() if context is None else context

    @property
    def fields(self) -> set[str]:
        return {name for one in self._told for name in one.names}

    def __repr__(self) -> str:
        return f"<RequestPropagator {', '.join(map(repr, self._told))}>"
