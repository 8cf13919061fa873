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
    ModuleType = type(sys)
    _made = _coroutine()
    CoroutineType = type(_made)
    _made.close()
    del _made, _coroutine


def of_functools(raw: object, name: str) -> bool:
    """Whether ``raw`` is an instance of ``functools.<name>`` or of a subclass."""
    return any(cls.__module__ == "functools" and cls.__name__ == name for cls in type(raw).__mro__)
