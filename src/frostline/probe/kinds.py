"""The types of callables, without the modules that name them.

``types`` and ``functools`` cost a bare target up to ten modules; a class of ``functools``
that an object is of can be told by its name, since whoever made the object loaded it.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import BuiltinFunctionType as BuiltinFunctionType
    from types import CodeType as CodeType
    from types import CoroutineType as CoroutineType
    from types import FunctionType as FunctionType
    from types import GetSetDescriptorType as GetSetDescriptorType
    from types import MemberDescriptorType as MemberDescriptorType
    from types import MethodDescriptorType as MethodDescriptorType
    from types import MethodType as MethodType
    from types import ModuleType as ModuleType
    from types import WrapperDescriptorType as WrapperDescriptorType
else:

    async def _coroutine():
        pass

    FunctionType = type(_coroutine)
    # No class is made for it: that would be a cycle, garbage in every process that is recorded.
    MethodType = type(_coroutine.__get__(sys))
    CodeType = type(_coroutine.__code__)
    BuiltinFunctionType = type(len)
    MethodDescriptorType = type(list.append)
    WrapperDescriptorType = type(object.__init__)
    MemberDescriptorType = type(FunctionType.__globals__)
    GetSetDescriptorType = type(type.__dict__["__dict__"])
    ModuleType = type(sys)
    _made = _coroutine()
    CoroutineType = type(_made)
    _made.close()
    del _made, _coroutine


def of_functools(raw: object, name: str) -> bool:
    """Whether ``raw`` is an instance of ``functools.<name>`` or of a subclass."""
    return any(cls.__module__ == "functools" and cls.__name__ == name for cls in type(raw).__mro__)


# --- looks at an object that run nothing of the host's: no property, no ``__getattr__`` --------------------
def mro(kind: type) -> "tuple[type, ...]":
    """A type's bases in order, past what a metaclass may have made of the word."""
    return type.__dict__["__mro__"].__get__(kind)  # type: ignore[no-any-return]


def own_dict(one: object) -> "dict[str, object] | None":
    """An object's ``__dict__``, unless its class makes something of its own of that word, or of a dict."""
    value = attributes_of(one)
    return value if type(value) is dict else None


def attributes_of(one: object) -> object:
    """What stands in the place of an object's ``__dict__``: a dict, or an instance of a subclass that may do
    anything when it is asked; None where its class makes something of its own of that word."""
    for cls in mro(type(one)):
        found = type.__dict__["__dict__"].__get__(cls).get("__dict__")
        if found is not None:
            if type(found) is not GetSetDescriptorType and type(found) is not MemberDescriptorType:
                return None
            try:
                return found.__get__(one)
            except (AttributeError, TypeError):
                return None  # another class's: this one was made of a copy of its namespace
    return None
