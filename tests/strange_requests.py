"""Requests that nobody would send, some of them close to what is meant, for property-based tests of the service."""

import json
from dataclasses import dataclass

from hypothesis import strategies as st

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
# Close to what is meant: the right fields with anything in them, and sometimes more fields.
nearly_example = st.fixed_dictionaries({"text": st.text() | anything, "label": st.text() | st.integers() | anything})
nearly = st.one_of(
    st.fixed_dictionaries({"examples": st.lists(nearly_example | anything, max_size=5) | anything}),
    st.fixed_dictionaries({"texts": st.lists(st.text() | anything, max_size=5) | anything}),
    st.dictionaries(st.sampled_from(["texts", "examples", "text", "label", "token"]), anything),
    anything,
)
bodies = nearly.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200)
broken = st.tuples(bodies, st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]])
paths = st.sampled_from(["/examples", "/predictions", "/model", "/health", "/metrics", "/", "/page/app.js"]) | st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="#"), max_size=30
).map(lambda text: "/" + text)
kinds = st.sampled_from(["application/json", "application/json; charset=utf-8", "text/plain", "", "application/json;x"])
methods = st.sampled_from(["POST"] * 6 + ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"])


@dataclass(frozen=True)
class StrangeRequest:
    """What goes over the wire."""

    method: str
    path: str
    body: bytes
    kind: str


strange_requests = st.builds(StrangeRequest, methods, paths, bodies | broken, kinds)
