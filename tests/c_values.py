"""Integer expressions of C, such as ``sizeof`` and enumerators, computed with a header by the system's compiler."""

import shutil
import subprocess

import pytest


def compute_c_values(header, expressions, folder):
    """Return the expressions' values, or skip without a compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    lines = "\n".join(f'printf("%lld\\n", (long long)({text}));' for text in expressions)
    source = folder / "values.c"
    source.write_text(
        f"#include <stddef.h>\n#include <stdio.h>\n#include <{header.name}>\nint main(void) {{ {lines} return 0; }}\n"
    )
    subprocess.run([compiler, "-I", header.parent, source, "-o", folder / "values"], check=True)
    done = subprocess.run([folder / "values"], capture_output=True, text=True, check=True)
    return [int(line) for line in done.stdout.split()]
