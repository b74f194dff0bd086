"""NumPy with a default integer of 32 bits, for the modules of the library alone.

NumPy's default integer has 32 bits under WebAssembly, and on Windows before NumPy 2.  An import
hook gives each module of `sampled_metrics` another `np` and routes its calls of some methods
through `method`.  NumPy, SciPy, pandas and the tests themselves compute as always.

Simulated:

- `int` as a dtype, `np.int_` and `np.intp` are 32 bits wide;
- arrays that NumPy makes of Python integers (`np.arange`, `np.array`, `np.full`, `np.where`, ...)
  have 32 bits, unless a value needs 64 or an argument has 64;
- sums, products and their running forms over booleans and shorter integers have 32 bits and wrap;
- indices and counts (`argsort`, `searchsorted`, `flatnonzero`, `bincount`, `unique`,
  `pandas.factorize`, ...) have 32 bits;
- `repeat`, `bincount`, `reduceat`, `put` and `choose` refuse an array of 64-bit indices, and
  `unravel_index` a shape of 2**31 entries.

NumPy itself then raises where a Python integer does not fit, and wraps where a product does not.

Not simulated: NumPy before version 2, which chose the type of a result by the values of Python
integers (it raises less often); Windows, whose `np.intp` has 64 bits, so that more is refused here
than there; what NumPy, SciPy or pandas compute inside themselves; methods that are passed as
values; lists of Python integers as operands of an operator; arrays of 32 bits that callers pass;
and `ranking/kernels.py`, which Numba compiles from its source.
Doctests are not for it: they print the types of a platform with 64 bits.
"""

import ast
import functools
import importlib.abc
import importlib.machinery
import math
import sys

#: Results of NumPy functions and methods that are indices or counts.
INDICES = {
    *("argmax", "argmin", "argpartition", "argsort", "argwhere", "bincount", "count_nonzero"),
    *("digitize", "flatnonzero", "histogram", "indices", "ix_", "lexsort", "nanargmax"),
    *("nanargmin", "nonzero", "ravel_multi_index", "searchsorted", "tril_indices"),
    *("triu_indices", "unravel_index"),
}
#: Those of pandas, whose first result, or only one, holds indices.
PANDAS = {"factorize", "get_indexer", "get_indexer_for", "searchsorted"}
#: Functions and methods that widen short integers to the default integer.
SUMS = {"cumprod", "cumsum", "nancumsum", "nanprod", "nansum", "prod", "sum", "trace"}
#: The name and place of the argument that must be cast to np.intp without loss.
CAST = {"repeat": ("repeats", 1), "bincount": ("x", 0), "put": ("ind", 1), "choose": ("a", 0)}
#: Functions that read integers of any width from elsewhere.
READING = {"frombuffer", "fromfile", "from_dlpack", "load"}
#: Calls of attributes with these names are looked at, whatever has the attribute.
METHODS = {"astype", "permutation", "view", *INDICES, *PANDAS, *SUMS, *CAST}


def _narrow(result, wraps):
    """64-bit integers in 32 bits; where values are too large, only if the computation wraps."""
    import numpy as np

    if isinstance(result, (tuple, list)) and type(result) in (tuple, list):
        return type(result)(_narrow(part, wraps) for part in result)
    if not isinstance(result, (np.ndarray, np.generic)) or result.dtype.kind not in "iu":
        return result
    if result.dtype.itemsize < 8:
        return result
    short = np.dtype(np.int32 if result.dtype.kind == "i" else np.uint32)
    limits = np.iinfo(short)
    fits = not result.size or (result.min() >= limits.min and result.max() <= limits.max)
    return result.astype(short) if wraps or fits else result


def _has_wide(value):
    """Whether a result may have 64 bits because an argument, or a part of it, has."""
    import numpy as np

    if isinstance(value, (list, tuple)):
        return any(map(_has_wide, value))
    if value is None or isinstance(value, (int, float, complex, str, bytes, range, type)):
        # NumPy's own float64 is a float, and no integer.
        return False
    dtype = getattr(value, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "iu" and dtype.itemsize == 8
    return True  # a frame, an array of another library, or what cannot be looked into


def _dtypes(args, keywords):
    """The arguments with `int` in 32 bits, and whether they say a dtype."""
    import numpy as np

    args = [np.int32 if value is int else value for value in args]
    if keywords.get("dtype") in (int, "int"):
        keywords = keywords | {"dtype": np.int32}
    says = any(isinstance(value, (type, np.dtype)) for value in args)
    return args, keywords, says or keywords.get("dtype") is not None


def _refuse(name, argument, place, args, keywords):
    """Refuse an array of indices that np.intp of 32 bits does not hold for certain."""
    import numpy as np

    given = args[place] if len(args) > place else keywords.get(argument)
    dtype = None if isinstance(given, np.generic) else getattr(given, "dtype", None)
    if isinstance(dtype, np.dtype) and not np.can_cast(dtype, np.int32) and dtype.kind in "iu":
        raise TypeError(
            f"Cannot cast array data from {dtype!r} to dtype('int32') according to the rule 'safe' "
            f"({name})"
        )


def function(real, name):
    """A function of NumPy, with a default integer of 32 bits."""
    import numpy as np

    @functools.wraps(real)
    def simulated(*args, **keywords):
        args, keywords, says = _dtypes(args, keywords)
        if name in CAST:
            _refuse(name, *CAST[name], args, keywords)
        if name in ("unravel_index", "ravel_multi_index"):
            shape = map(int, np.ravel(args[1]))
            if math.prod(shape) >= 2**31:
                raise ValueError("dimensions are too large: indices have 32 bits")
        result = real(*args, **keywords)
        if name in INDICES or (name == "where" and len(args) == 1):
            return _narrow(result, True)
        if name == "unique" and isinstance(result, tuple):
            return (result[0], *_narrow(result[1:], True))
        if says or any(map(_has_wide, [*args, *keywords.values()])):
            return result
        return _narrow(result, name in SUMS)

    return simulated


class Ufunc:
    """A ufunc of NumPy, with a default integer of 32 bits."""

    def __init__(self, real):
        self._real = real

    def __call__(self, *args, **keywords):
        return self._called(self._real, args, keywords)

    def __getattr__(self, name):
        real = getattr(self._real, name)
        if name not in ("reduce", "accumulate", "reduceat", "outer"):
            return real

        def simulated(*args, **keywords):
            if name == "reduceat":
                _refuse(f"{self._real.__name__}.reduceat", "indices", 1, args, keywords)
                wide = map(_has_wide, args[:1])  # indices do not widen the result
                return self._called(real, args, keywords, any(wide))
            return self._called(real, args, keywords)

        return simulated

    @staticmethod
    def _called(real, args, keywords, wide=None):
        args, keywords, says = _dtypes(args, keywords)
        if wide is None:
            wide = any(map(_has_wide, [*args, *keywords.values()]))
        result = real(*args, **keywords)
        return result if says or wide else _narrow(result, True)


class Numpy:
    """The module that `import numpy as np` gives to the library."""

    def __getattr__(self, name):
        import numpy as np

        real = getattr(np, name)
        if name in ("int_", "intp", "long"):
            simulated = np.int32
        elif name in ("uint", "uintp", "ulong"):
            simulated = np.uint32
        elif isinstance(real, np.ufunc):
            simulated = Ufunc(real)
        elif isinstance(real, type) or not callable(real) or name in READING:
            simulated = real
        else:
            simulated = function(real, name)
        setattr(self, name, simulated)
        return simulated


def method(value, name):
    """The method of a value, with a default integer of 32 bits if it is one of NumPy or pandas."""
    import numpy as np

    real = getattr(value, name)
    is_array = isinstance(value, (np.ndarray, np.generic))
    if isinstance(value, np.random.Generator):
        # Of a number it permutes the default integers below; of an array its entries.
        return lambda given: _narrow(real(given), False) if type(given) is int else real(given)
    owner = getattr(value, "__name__", None) or type(value).__module__
    if not is_array and owner.partition(".")[0] != "pandas":
        return real

    def simulated(*args, **keywords):
        args, keywords, says = _dtypes(args, keywords)
        if is_array and name in CAST:
            _refuse(name, *CAST[name], [value, *args], keywords)
        result = real(*args, **keywords)
        if is_array and name in INDICES:
            return _narrow(result, True)
        if is_array and name in SUMS and not says and not _has_wide(value):
            return _narrow(result, True)
        if not is_array and name in PANDAS:
            first = _narrow(result[0] if isinstance(result, tuple) else result, True)
            return (first, *result[1:]) if isinstance(result, tuple) else first
        return result

    return simulated


class Rewritten(ast.NodeTransformer):
    """The source with another `np`, and with the calls of some methods routed through `method`."""

    def visit_Import(self, node):
        if [(alias.name, alias.asname) for alias in node.names] != [("numpy", "np")]:
            return node
        given = ast.Name("__int32_numpy__", ast.Load())
        new = ast.Assign([ast.Name("np", ast.Store())], given)
        return ast.fix_missing_locations(ast.copy_location(new, node))

    def visit_Call(self, node):
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Attribute) or called.attr not in METHODS:
            return node
        if isinstance(called.value, ast.Name) and called.value.id == "np":
            return node
        name = ast.Name("__int32_method__", ast.Load())
        routed = ast.Call(name, [called.value, ast.Constant(called.attr)], [])
        node.func = ast.fix_missing_locations(ast.copy_location(routed, called))
        return node


def code(source, path):
    """The compiled source of a module, which needs `NAMES` among its global names."""
    tree = Rewritten().visit(ast.parse(source, path))
    return compile(tree, path, "exec", dont_inherit=True)


#: What the rewritten source refers to.
NAMES = {"__int32_numpy__": Numpy(), "__int32_method__": method}


class Loader(importlib.machinery.SourceFileLoader):
    """Compile a module of the library anew, and keep no bytecode."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        return code(self.get_data(path), path)

    def exec_module(self, module):
        module.__dict__.update(NAMES)
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Find the modules of the library before Python's own finders do."""

    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] != "sampled_metrics" or fullname.endswith(".kernels"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def install():
    """Import the library, which must not have been imported yet, with 32 bits from now on."""
    sys.meta_path.insert(0, Finder())
