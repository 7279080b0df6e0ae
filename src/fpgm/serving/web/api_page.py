"""The page that explains the HTTP API, made from its OpenAPI description; it needs no script and no outside host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

Schema = Mapping[str, Any]

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>FPGM: HTTP API</title>
<link rel="icon" href="static/icon.svg">
<link rel="stylesheet" href="static/style.css">
</head>
<body class="reading">
"""


def api_page(openapi: Schema) -> str:
    """Return the page of an OpenAPI description."""
    info, schemas = openapi["info"], openapi["components"]["schemas"]
    parts = [
        f"<header><h1>{escape(info['title'])}</h1><nav><a href='./'>Back to the page</a></nav></header><main>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].split("\n\n")),
        "<p>For programs: <a href='openapi.json'>openapi.json</a></p>",
    ]
    for path, methods in openapi["paths"].items():
        parts += [_operation(method.upper(), path, operation) for method, operation in methods.items()]
    parts.append("<h2>Fields</h2>")
    parts += [_schema(name, schema) for name, schema in schemas.items()]
    return "\n".join((_HEAD, *parts, "</main></body></html>\n"))


def _operation(method: str, path: str, operation: Schema) -> str:
    parts = [f"<h2><code>{method} {escape(path)}</code></h2>", f"<p>{_text(operation['description'])}</p>"]
    if example := operation.get("x-example"):
        parts.append(f"<pre tabindex='0'><code>{escape(example)}</code></pre>")
    if parameters := operation.get("parameters"):
        rows = [(entry["name"], _type(entry["schema"]), entry.get("description", "")) for entry in parameters]
        parts.append(_table(("parameter", "value", "meaning"), rows))
    answers = [(code, _content(answer), answer["description"]) for code, answer in operation["responses"].items()]
    parts.append(_table(("answer", "content", "when"), answers))
    return "\n".join(parts)


def _content(answer: Schema) -> str:
    return ", ".join(
        f"{kind}: {_type(entry['schema'])}" if "$ref" in entry.get("schema", {}) else kind
        for kind, entry in answer.get("content", {}).items()
    )


def _schema(name: str, schema: Schema) -> str:
    rows = [
        (field, _type(entry), entry.get("description", "")) for field, entry in schema.get("properties", {}).items()
    ]
    head = f"<h3 id='{escape(name)}'>{escape(name)}</h3><p>{_text(schema.get('description', ''))}</p>"
    return head + _table(("field", "value", "meaning"), rows)


def _type(schema: Schema) -> str:
    """Say in a few words what values a schema allows."""
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        words = " | ".join(map(str, schema["enum"]))
    elif schema.get("type") == "array" and "prefixItems" not in schema:
        words = f"list of {_type(schema['items'])}"
    else:
        words = f"{len(schema['prefixItems'])} numbers" if "prefixItems" in schema else str(schema["type"])
    ends = [
        f"{sign} {schema[key]:g}"
        for key, sign in (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"))
        if key in schema
    ]
    default = [f"default {schema['default']}"] if schema.get("default") is not None else []
    return ", ".join((words, *ends, *default))


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    top = "".join(f"<th scope='col'>{head}</th>" for head in heads)
    body = "".join(
        f"<tr><th scope='row'><code>{escape(first)}</code></th>{''.join(f'<td>{_text(one)}</td>' for one in rest)}</tr>"
        for first, *rest in rows
    )
    return f"<div class='wide'><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"


def _text(text: str) -> str:
    """Escape, and set what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
