"""Print every benchmark. Compare ratios, not seconds: machines are shared."""

from __future__ import annotations

from bench import dispatch, imports


def main() -> None:
    for bench in (imports, dispatch):
        print(f"\n{(bench.__doc__ or '').splitlines()[0]}")
        for row in bench.rows():
            print("  " + row)


main()
