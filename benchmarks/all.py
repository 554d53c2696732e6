"""All benchmarks in one run: `python -m benchmarks.all`."""

from benchmarks import counting, noise, planning, product_releases, products, releasing


def main() -> None:
    for benchmark in (planning, products, noise, counting, releasing, product_releases):
        benchmark.main()


if __name__ == "__main__":
    main()
