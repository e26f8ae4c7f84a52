"""The one redactor: which values are secret, and how they are kept out of documents and texts.

Secret by place: everything below `env` and `user_data`, values whose key looks secret, passwords inside URLs and DSNs;
a caller names whole documents besides, such as the properties of a cloud. Secret by value: the same values, wherever a
text repeats them, also escaped or in base64. Values that are short or common are hidden in their place only.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from coterie.errors import CoterieError, InvalidDocument

REDACTED = "<redacted>"
_PLACES = frozenset({"env", "user_data"})
_SECRET_KEY = re.compile(
    r"pass(word|wd|phrase|code)?s?(_|$)|secret|token|credential|private|pwd|(access|api|account|shared|ssh)_?key"
    r"|(^|_)key$|connection_?string|authorization|cookie|signature|user_?data$"
)
_HARMLESS_KEY = re.compile(r"public|(^|_)(name|path|file|id|type|urls?|source|version|algorithm|ttl|length|expir\w*)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s@:]*:([^/\s@]+)@", re.IGNORECASE)
_IN_DSN = re.compile(r"(?:password|passwd|pwd)\s*=\s*('[^']+'|[^\s;&]+)", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=password=)[^&\s]+|(?<=://)[^/@\s]+(?=@)")
_NAMES_IN_ENV = frozenset({"server_group_cid", "group", "groups"})  # of env.bosh: names of objects, not secrets

_LEARNT = 256
_SHORTEST = 4  # a shorter value would black out half of every sentence
_ANYWHERE = 8  # a shorter value counts only where it stands as a word
_DIGITS = 6  # a number with fewer is a port or a size
_COMMON = frozenset(
    {
        *("true", "false", "none", "null", "default", "auto", "always", "never", "enabled", "disabled", "redacted"),
        *("admin", "root", "user", "users", "vcap", "name", "test", "local", "localhost", "password", "secret"),
        *("token", "public", "private", "internal", "external", "http", "https", "info", "debug", "error", "warning"),
        *("bosh", "sandbox", "exec", "openstack", "cloudstack", "vsphere", "azure", "gcp", "incus", "linux", "ubuntu"),
        "debian",
    }
)


def hide(value: Any) -> Any:
    """A JSON value as any caller may see it."""
    redactor = Redactor(secret=_places_in(value))
    hidden = _hide_places(value)
    return redactor.hide_all(hidden) if redactor else hidden


def hide_yaml(text: str) -> str:
    """A YAML text as any caller may see it: secret values replaced; all else, comments too, stays as it was given."""
    spans, found = _secret_spans(text)
    for start, end in sorted(spans, reverse=True):
        tail = "\n" if text[start:end].endswith("\n") else ""
        text = f'{text[:start]}"{REDACTED}"{tail}{text[end:]}'
    return hide_credentials(Redactor(secret=found).hide(text))


def hide_credentials(text: str) -> str:
    """A text without the credentials of URLs and DSNs in it."""
    return _CREDENTIALS.sub(REDACTED, text) if "://" in text or "password=" in text else text


def hide_in_error(error: CoterieError, redactor: Redactor) -> None:
    """Redact an error in place: it may be stored, shown and logged from here on."""
    if not redactor:
        return
    error.what, error.why, error.remedy = map(redactor.hide, (error.what, error.why, error.remedy))
    error.details = redactor.hide_all(error.details)
    error.args = (error.what,)


def refuse_redacted(text: str, file: str) -> None:
    """A text whose secrets were hidden must not replace the one that has them."""
    lines = [number for number, line in enumerate(text.splitlines(), 1) if REDACTED in line]
    if not lines:
        return
    mistakes = [
        {"file": file, "line": n, "column": 1, "field": "", "what": "a hidden value", "remedy": "put the real value in"}
        for n in lines
    ]
    raise InvalidDocument(
        f"{file}:{lines[0]}: a value here was hidden when the document was read",
        why=f"{REDACTED} is what is shown instead of a secret",
        remedy="put the real value in",
        details={"mistakes": mistakes},
    )


@lru_cache(4096)
def looks_secret(key: str) -> bool:
    plain = _CAMEL.sub("_", key).replace("-", "_").lower()
    return bool(_SECRET_KEY.search(plain)) and not _HARMLESS_KEY.search(plain)


class Redactor:
    """Replaces secret values in texts. `documents`: secret is what their keys say. `secret`: documents that are secret
    as a whole. `public`: names that are shown anyway; a value that equals one of them is not replaced."""

    def __init__(self, *documents: Any, secret: Iterable[Any] = (), public: Iterable[str] = ()) -> None:
        parts = [part for document in documents for part in _secret_parts(document)]
        parts += [(True, document) for document in secret if document]
        shown = set(public)
        found = _all_forms(json.dumps(parts, default=str)) if parts else ()
        self._forms = [form for form in found if form not in shown]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def hide(self, text: str) -> str:
        for form in self._forms:
            if form in text:
                text = text.replace(form, REDACTED) if len(form) >= _ANYWHERE else _replace_word(form, text)
        return text

    def hide_all(self, value: Any) -> Any:
        """The same document, its strings without secrets."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {key: self.hide_all(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_all(one) for one in value]
        return value


class KnownSecrets:
    """The secrets that this process handles now: its log hides them. Documents are read when a line is written."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[Any, Redactor | None]] = {}
        self._learnt: dict[str, Redactor] = {}  # by the document, oldest first
        self._lock = threading.Lock()

    def learn(self, document: Any) -> None:
        """Keep in mind that `document` is secret as a whole; the oldest of many are forgotten."""
        key = json.dumps(document, sort_keys=True, default=str)
        with self._lock:
            made = self._learnt.pop(key) if key in self._learnt else Redactor(secret=[document])
            self._learnt[key] = made
            if len(self._learnt) > _LEARNT:
                del self._learnt[next(iter(self._learnt))]

    @contextmanager
    def hold(self, key: Hashable, document: Any) -> Iterator[None]:
        """What the keys of `document` call secret is known meanwhile."""
        with self._lock:
            self._held[key] = (document, None)
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(key, None)

    def hide(self, text: str) -> str:
        for redactor in self._redactors():
            text = redactor.hide(text)
        return hide_credentials(text)

    def _redactors(self) -> list[Redactor]:
        with self._lock:
            for key, (document, made) in self._held.items():
                self._held[key] = (document, made or Redactor(document))
            return [*self._learnt.values(), *(made for _, made in self._held.values() if made)]


KNOWN = KnownSecrets()


def _hide_places(value: Any, secret: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _hide_places(one, secret or _is_place(str(key))) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_places(one, secret) for one in value]
    if secret:  # None and flags are no secrets, and it helps to see that a value is unset
        return value if value is None or isinstance(value, bool) else REDACTED
    return hide_credentials(value) if isinstance(value, str) else value


def _is_place(key: str) -> bool:
    # `key` alone names a public key in our own answers.
    return key in _PLACES or (key != "key" and looks_secret(key))


def _places_in(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in _PLACES:
                yield one
            else:
                yield from _places_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _places_in(one)


def _secret_parts(document: Any) -> Iterator[tuple[bool, Any]]:
    """What of a document is secret (True), or may hold a secret inside a text (False)."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key in _PLACES or looks_secret(str(key)):
                yield True, value
            else:
                yield from _secret_parts(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _secret_parts(value)
    elif isinstance(document, str) and ("://" in document or "=" in document or document.lstrip()[:1] in ("{", "[")):
        yield False, document


@lru_cache(64)  # the nodes of an instance group share their secrets
def _all_forms(parts: str) -> tuple[str, ...]:
    values = {value for secret, document in json.loads(parts) for value in _values(document, secret)}
    forms = {form for value in values for form in _forms(value)}
    # The longest first: a secret may hold another one.
    return tuple(sorted(filter(_counts, forms), key=lambda form: (-len(form), form)))


def _values(document: Any, secret: bool) -> Iterator[str]:
    """The secret strings of a document, with what is inside them."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if secret and key == "bosh" and isinstance(value, Mapping):
                value = {name: one for name, one in value.items() if name not in _NAMES_IN_ENV}
            yield from _values(value, secret or key in _PLACES or looks_secret(str(key)))
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _values(value, secret)
    elif isinstance(document, str):
        yield from _IN_URL.findall(document)
        yield from (found.strip("'") for found in _IN_DSN.findall(document))
        yield from _values(_inner(document), secret)
        if secret:
            yield document
            yield from _parts(document)
    elif secret and isinstance(document, int | float) and not isinstance(document, bool):
        yield str(document)


def _inner(text: str) -> Any:
    """JSON that travels as text."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parts(text: str) -> Iterator[str]:
    """A text of several lines is quoted line by line, and so are the values in lines such as `key: value`."""
    decoded = _decode(text)
    if decoded is not None:
        yield decoded
        yield from _parts(decoded)
    lines = text.splitlines()
    for line in lines:
        if len(lines) > 1:
            yield line.strip()
        match = re.match(r"\s*(?:-\s+)?(?:export\s+)?[\w.-]{1,64}\s*[:=]\s*(\S.*?)\s*$", line)
        if match and (len(lines) > 1 or "://" not in line):
            yield match[1].strip("\"'")
    if len(lines) == 1 and (scheme := re.fullmatch(r"(?:Basic|Bearer|Token)\s+(\S+)", text)):
        yield scheme[1]
        yield from _parts(scheme[1])


def _decode(text: str) -> str | None:
    """The text inside base64, if there is one."""
    compact = "".join(text.split())
    if len(compact) < 12 or not re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", compact):
        return None
    try:
        plain = base64.b64decode(compact.replace("-", "+").replace("_", "/"), validate=True).decode()
    except (ValueError, binascii.Error):
        return None
    return plain if plain.isprintable() or "\n" in plain else None


def _forms(value: str) -> Iterator[str]:
    """A secret may be quoted by what passes it on: in JSON, XML, a URL or base64."""
    if not _counts(value):
        return
    from urllib.parse import quote, quote_plus, unquote  # only a text that is redacted pays for it

    yield value
    yield value.strip()
    yield repr(value)[1:-1]
    once = json.dumps(value)[1:-1]
    yield once
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield json.dumps(once)[1:-1]  # JSON inside JSON
    yield from (quote(value, safe=""), quote(value), quote_plus(value), unquote(value), _escape_xml(value))
    for text in {value, once}:
        yield from _base64_forms(text.encode("utf-8", "surrogatepass"))


def _escape_xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _base64_forms(raw: bytes) -> Iterator[str]:
    """How `raw` looks inside base64, whatever stands before and behind it."""
    if len(raw) < _ANYWHERE:
        yield base64.b64encode(raw).decode()
        return
    for before, cut in ((0, 0), (1, 2), (2, 3)):
        text = base64.b64encode(b"\0" * before + raw).decode()
        core = text[cut:].rstrip("=")
        core = core[:-1] if text.endswith("=") else core
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _counts(value: str) -> bool:
    """Whether a value is replaced wherever it turns up."""
    plain = value.strip()
    if len(plain) < _SHORTEST or plain.lower() in _COMMON:
        return False
    if plain.replace(".", "").isdecimal():
        return len(plain) >= _DIGITS
    return any(character.isalnum() for character in plain)


def _replace_word(form: str, text: str) -> str:
    return re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", REDACTED, text)


def _secret_spans(text: str) -> tuple[set[tuple[int, int]], list[str]]:
    """Where secret values stand in a YAML text, and what they are."""
    from ruamel.yaml import YAML  # heavy, and many programs that redact read no YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = list(_find_secrets(YAML(typ="safe", pure=True).compose(text), False, set()))
    except (YAMLError, RecursionError):
        # A text that is not YAML was never accepted; hide all of it.
        return {(0, len(text))}, []
    spans = {(node.start_mark.index, node.end_mark.index) for node in found}
    return spans, [str(node.value) for node in found]


def _find_secrets(node: Any, secret: bool, seen: set[tuple[int, bool]]) -> Iterator[Any]:
    """The scalars that are secret. An alias is a node that was seen; it may be secret here and not there."""
    if node is None or (id(node), secret) in seen:
        return
    seen.add((id(node), secret))
    if node.id == "sequence":
        for item in node.value:
            yield from _find_secrets(item, secret, seen)
    elif node.id == "mapping":
        for key, value in node.value:
            yield from _find_secrets(value, secret or _is_place(str(key.value)), seen)
    elif secret and not (node.tag or "").endswith((":null", ":bool")):
        yield node
