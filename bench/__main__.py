"""Print every benchmark. Compare ratios, not seconds: machines are shared."""

from __future__ import annotations

from bench import audit, cancel, dispatch, imports, slates, slots, wire, work


def main() -> None:
    for bench in (audit, imports, wire, dispatch, work, cancel, slates, slots):
        print(f"\n{(bench.__doc__ or '').splitlines()[0]}")
        for row in bench.rows():
            print("  " + row)


main()
