"""What an unquoted word of YAML means: YAML 1.2's core schema, minus what readers of YAML disagree about."""

from __future__ import annotations

import math
import re

from coterie.manifest.tree.node import Scalar

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+")
# A leading zero is octal in YAML 1.1 and decimal in 1.2: such a word stays text, as it was written.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_PREFIX = "tag:yaml.org,2002:"
_HALF = re.compile("[\ud800-\udfff]")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_LONGEST_NUMBER = 40
_LARGEST = 2**63 - 1


class Unusable(ValueError):
    """The word cannot be a value here; the message gives the reason."""

    def __init__(self, what: str, remedy: str = "write a smaller number, or put it in quotes if text is meant") -> None:
        super().__init__(what)
        self.remedy = remedy


def scalar(text: str, *, plain: bool, tag: str | None) -> Scalar:
    """The value of a scalar; raises Unusable for unknown tags, and for what JSON or a database cannot carry."""
    if _UNSTORABLE.search(text):
        raise Unusable("the text has a zero byte or half of a character in it", "remove the escape that makes it")
    if tag not in (None, "!"):
        return _read_tagged(text, str(tag))
    return _plain(text) if plain and tag is None else text


def join_surrogates(text: str) -> str:
    """JSON writes some characters as two escapes, each half of one; YAML's reader leaves the halves apart."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def storable(text: str) -> str:
    """The text with a stand-in for each character that nothing downstream could carry."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def _read_tagged(text: str, tag: str) -> Scalar:
    if tag == _PREFIX + "str":
        return text
    kinds: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
    wanted = kinds.get(tag.removeprefix(_PREFIX))
    if wanted is None:
        if not tag.startswith(_PREFIX):  # not named: a password that begins with a `!` is read as a tag
            raise Unusable("the tag of this value is not understood", "remove the tag, or put the text in quotes")
        raise Unusable(f"the tag {tag.replace(_PREFIX, '!!')} is not understood", "remove the tag")
    value = _plain(text)
    if type(value) not in wanted:
        raise Unusable(f"the value does not fit its tag {tag.replace(_PREFIX, '!!')}", "remove the tag")
    return value


def _plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789":
        return text
    if _INFINITE.fullmatch(text):
        raise Unusable("infinity and not-a-number cannot be used")
    if _INT.fullmatch(text):
        return _whole(text)
    if _FLOAT.fullmatch(text):
        return _fraction(text)
    return text


def _whole(text: str) -> int:
    value = int(text, 0) if len(text) <= _LONGEST_NUMBER else _LARGEST + 1
    if abs(value) > _LARGEST:
        raise Unusable("the number is too large")
    return value


def _fraction(text: str) -> float:
    value = float(text) if len(text) <= _LONGEST_NUMBER else math.inf
    if math.isinf(value):
        raise Unusable("the number is too large or too long")
    return value


def is_known_collection(tag: str | None) -> bool:
    return tag in (None, "!", _PREFIX + "map", _PREFIX + "seq")
