"""Dataclasses with slots that cost little to define, for modules that a call of `coterie-cpi` imports: the standard
library writes and compiles six functions for each class, which took a third of such a call, and imports `inspect`.

To type checkers and to the functions of `dataclasses` they are dataclasses. What has to be fast is compiled when it is
called first; the other methods are the same functions for all classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import MISSING as MISSING
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import fields as fields
    from dataclasses import replace as replace
else:
    MISSING = type("Missing", (), {})()  # no default

    class field:
        """What a class body says of one field."""

        __slots__ = ("compare", "default", "default_factory", "init", "name", "repr", "type")

        def __init__(self, *, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True) -> None:
            self.default, self.default_factory = default, default_factory
            self.init, self.repr, self.compare = init, repr, compare

    def dataclass(*, slots, frozen=False):
        if not slots:
            raise TypeError("for a dataclass without slots take the standard library's")
        return _define_frozen if frozen else _define

    def fields(of):
        """With name, type and default; also of a dataclass of the standard library."""
        if hasattr(of, "_fields_"):
            return tuple(of._fields_.values())
        import dataclasses

        return dataclasses.fields(of)

    def asdict(of, **more):
        import dataclasses

        return dataclasses.asdict(of, **more)

    def replace(of, /, **changes):
        kept = {name: getattr(of, name) for name in of.__match_args__ if name not in changes}
        return type(of)(**kept, **changes)

    def _define_frozen(cls):
        return _define(cls, _FROZEN)

    def _define(cls, methods=None):
        """The class again, with slots."""
        body, own = dict(cls.__dict__), _own_fields(cls)
        inherited = {}
        for base in reversed(cls.__mro__[1:]):
            if "_own_fields_" not in base.__dict__ and "__dataclass_fields__" in base.__dict__:
                raise TypeError(
                    f"{base.__name__} is a dataclass of the standard library, so {cls.__name__} must be one"
                )
            inherited.update(base.__dict__.get("_own_fields_", {}))
        every = {**inherited, **own}
        for name in own:
            body.pop(name, None)
        body.pop("__dict__", None)
        body.pop("__weakref__", None)
        body["__slots__"] = tuple(name for name in own if name not in inherited)
        body["__match_args__"] = tuple(name for name, one in every.items() if one.init)
        body["_own_fields_"], body["_fields_"] = own, every
        for name, method in {**_METHODS, **(methods or _MUTABLE)}.items():
            body.setdefault(name, method)
        made = type(cls)(cls.__name__, cls.__bases__, body)
        made.__qualname__ = cls.__qualname__
        for name in _COMPILED if methods else ("__init__", "__eq__"):
            if name not in cls.__dict__:
                setattr(made, name, _compile_later(made, name))
        return made

    def _own_fields(cls):
        found = {}
        for name, kind in cls.__annotations__.items():
            if "ClassVar" in kind:
                continue
            given = cls.__dict__.get(name, MISSING)
            if isinstance(given, (list, dict, set)):
                raise TypeError(f"{cls.__name__}.{name}: all objects would share this default; use default_factory")
            one = given if isinstance(given, field) else field(default=given)
            one.name, one.type = name, kind
            found[name] = one
        return found

    def _compile_later(cls, name):
        """Stands in until the method is called first."""

        def method(self, *args, **kwargs):
            setattr(cls, name, _COMPILED[name](cls))
            return getattr(cls, name)(self, *args, **kwargs)

        method.__name__ = name
        return method

    def _compile_init(cls):
        scope = {"_set": object.__setattr__, "_missing": MISSING}
        parameters, lines = [], []
        for name, one in cls._fields_.items():
            value = name
            if one.default_factory is not MISSING:
                scope[f"_make_{name}"] = one.default_factory
                value = f"(_make_{name}() if {name} is _missing else {name})" if one.init else f"_make_{name}()"
            elif one.default is not MISSING:
                scope[f"_default_{name}"] = one.default
                value = name if one.init else f"_default_{name}"
            elif not one.init:
                continue
            if one.init:
                default = "_missing" if one.default_factory is not MISSING else f"_default_{name}"
                is_needed = one.default_factory is MISSING and one.default is MISSING
                parameters.append(name if is_needed else f"{name}={default}")
            lines.append(f" _set(self, {name!r}, {value})")
        if hasattr(cls, "__post_init__"):
            lines.append(" self.__post_init__()")
        text = f"def __init__({', '.join(['self', *parameters])}):\n" + ("\n".join(lines) or " pass")
        return _compile(cls, "__init__", text, scope)

    def _compile_eq(cls):
        text = (
            "def __eq__(self, other):\n"
            f" return {_values(cls, 'self')} == {_values(cls, 'other')} if other.__class__ is self.__class__"
            " else NotImplemented"
        )
        return _compile(cls, "__eq__", text, {})

    def _compile_hash(cls):
        return _compile(cls, "__hash__", f"def __hash__(self): return hash({_values(cls, 'self')})", {})

    def _values(cls, of):
        return f"({''.join(f'{of}.{name}, ' for name, one in cls._fields_.items() if one.compare)})"

    def _compile(cls, name, text, scope):
        exec(text, scope)  # noqa: S102  # the names of fields are words of the class
        scope[name].__qualname__ = f"{cls.__qualname__}.{name}"
        return scope[name]

    _COMPILED = {"__init__": _compile_init, "__eq__": _compile_eq, "__hash__": _compile_hash}

    def _repr(self):
        shown = (f"{name}={getattr(self, name)!r}" for name, one in self._fields_.items() if one.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def _set(self, name, value):
        _refuse_change(self, name)
        object.__setattr__(self, name, value)

    def _delete(self, name):
        _refuse_change(self, name)
        object.__delattr__(self, name)

    def _refuse_change(self, name):
        """Other attributes than the fields may be set on objects of a subclass that is no dataclass itself."""
        if name in self._fields_ or "_own_fields_" in type(self).__dict__:
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot change field {name!r}")

    def _getstate(self):
        return [getattr(self, name) for name in self._fields_]

    def _setstate(self, state):
        for name, value in zip(self._fields_, state, strict=True):
            object.__setattr__(self, name, value)

    class _Lazy:
        """What the standard library keeps on a dataclass; made when a function of `dataclasses` looks at the class."""

        def __init__(self, name) -> None:
            self._name = name

        def __get__(self, of, cls):
            import dataclasses

            known = {}
            for name, one in cls._fields_.items():
                told = {"init": one.init, "repr": one.repr, "compare": one.compare}
                if one.default is not MISSING:
                    told["default"] = one.default
                elif one.default_factory is not MISSING:
                    told["default_factory"] = one.default_factory
                known[name] = (name, one.type, dataclasses.field(kw_only=False, **told))
            shadow = dataclasses.make_dataclass(cls.__name__, list(known.values()), frozen=True)
            made = getattr(shadow, self._name)
            setattr(cls, self._name, made)
            return made

    _METHODS = {
        "__repr__": _repr,
        "__dataclass_fields__": _Lazy("__dataclass_fields__"),
        "__dataclass_params__": _Lazy("__dataclass_params__"),
    }
    _MUTABLE = {"__hash__": None}
    _FROZEN = {
        "__setattr__": _set,
        "__delattr__": _delete,
        "__getstate__": _getstate,
        "__setstate__": _setstate,
    }
