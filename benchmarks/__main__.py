"""`python -m benchmarks [NAME...]`: run all bars, or those of the named modules."""

import importlib
import pkgutil
import platform
import sys

import benchmarks

if __name__ == "__main__":
    own = {"__main__", "compiled_wheel", "ratio"}
    names = sys.argv[1:] or [each.name for each in pkgutil.iter_modules(benchmarks.__path__) if each.name not in own]
    print(f"Python {platform.python_version()}, {platform.machine()}")
    for name in names:
        print(f"\n== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
