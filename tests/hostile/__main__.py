"""See tests/hostile/world.py. What is imported here, every process of it would import once more."""

if __name__ == "__main__":
    import sys

    from tests.hostile.world import fresh

    cases = 0
    for seed, commands, broken in fresh(float(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else None):
        cases += commands
        print(f"{seed} BROKE {broken}" if broken else f"{seed}: {commands} commands", flush=True)
    print(f"{cases:,} commands")
