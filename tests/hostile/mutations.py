"""Changes that no honest writer makes: of bytes, of lines, of TOML values and of command-line arguments."""

import random
import re

BYTES = [
    b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\n", b"\r\n", b'"', b",", b"{", b"}", b"[", b"]", b"NaN", b"-1e309",
    b"null", b"9" * 400, b"A" * 70_000, b"=cmd()", b"'; DROP TABLE entry; --", b"\x1b[2J", b"../../x", b"%s%n",
    b"\xc0\x80", b"0x41", b"1970-01-01", b"+99:99", b"PK\x03\x04", b"Obj\x01", b"PAR1", b"<html>", b"\x1f\x8b\x08",
]  # fmt: skip
VALUES = [
    "[]", "{}", "-1", "0", "1", "1e308", "1e-308", "nan", "-inf", "true", '""', "[[]]", "[1, 'a']", "1979-05-27",
    "9" * 4_000, "0x" + "f" * 4_000, '"' + "x" * 5_000 + '"', '"\\u0000"', '"\\u202e"', '"/dev/null"', '"/"',
    '"{file}"',
    "{ days = 0 }",
    "[{ days = 1, epsilon = 1 }]", "'00:00-24:00'", "'24:00-05:00'", "'Mars/Olympus'", "1.5", "2147483648",
]  # fmt: skip
ARGUMENTS = [
    "", "-", "--", "-1", "0", "abc", "[::1]:9464", "9" * 400, "\x1b[2J", "nan", "2022-02-30", "0001-01-01",
    "9999-12-31",
    "2022-01-01T00:00:00+99:00", "s3://", "file:///etc/passwd", "/dev/null", "/", "*", "[", "\udcff", "x" * 5_000,
]  # fmt: skip
WORDS = ("name", "minutes", "epsilon", "limit", "columns", "region", "mechanism", "share", "service", "unit", "zzz")


def mutated_bytes(choose: random.Random, data: bytes) -> bytes:
    """A few changes anywhere."""
    for _ in range(choose.choice([1, 1, 2, 5])):
        position, to = sorted((choose.randint(0, len(data)), choose.randint(0, len(data))))
        kind = choose.randrange(6)
        if kind == 0:
            data = data[:position] + choose.choice(BYTES) + data[position:]
        elif kind == 1:
            data = data[:position] + data[min(to, position + 40) :]
        elif kind == 2:
            data = data[:position] + bytes([choose.randrange(256)]) + data[position + 1 :]
        elif kind == 3:
            data = data[:position]
        elif kind == 4:
            data = data[:position] + data[position : position + 200] * 3 + data[position:]
        else:
            data = choose.choice(BYTES) if choose.random() < 0.1 else data[to:] + data[:to]
    return data


def mutated_toml(choose: random.Random, text: str) -> bytes:
    """A specification of which a few values, keys or tables are others."""
    lines = text.splitlines()
    for _ in range(choose.choice([1, 1, 2, 3])):
        index = choose.randrange(len(lines))
        kind = choose.randrange(8)
        if kind < 4 and "=" in lines[index]:
            lines[index] = lines[index].partition("=")[0] + "= " + choose.choice(VALUES)
        elif kind == 4:
            del lines[index]
        elif kind == 5:
            lines.insert(index, f"{choose.choice(WORDS)} = {choose.choice(VALUES)}")
        elif kind == 6:
            lines[index] = re.sub(r"\d+", lambda _: choose.choice(["0", "-3", "99999", "1e30", "7"]), lines[index])
        else:
            lines.insert(index, f"[{choose.choice(['live', 'fleet', 'input', 'output', 'slot.x', '['])}]")
        lines = lines or [""]
    data = "\n".join(lines).encode()
    return mutated_bytes(choose, data) if choose.random() < 0.1 else data
