"""Brings a folder of `hatstream publish` into an object store: new objects first, the pointer last.

python upload.py FOLDER s3://BUCKET/PREFIX [--every SECONDS]

Needs boto3 (`pip install 'hatstream[s3]'`), and credentials that may list, write and delete below the prefix. An
address other than Amazon's is AWS_ENDPOINT_URL. What the store has already is told by SHA256SUMS there.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3

SUMS, POINTER, MAPS = "SHA256SUMS", "latest.json", "map/"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".jsonld": "application/ld+json",
    ".geojson": "application/geo+json",
    ".csv": "text/csv; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
    ".md": "text/markdown; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
}


def upload(client: Any, folder: Path, bucket: str, prefix: str) -> list[str]:
    """Uploads what the store has not, and deletes what the folder no longer has; returns the names that changed."""
    there, here = _sums(_stored(client, bucket, prefix + SUMS)), _sums((folder / SUMS).read_bytes())
    changed = sorted(
        (name for name in here if there.get(name) != here[name]),
        key=lambda name: (name == POINTER, not name.startswith(MAPS)),
    )
    for name in changed:
        _put(client, folder, bucket, prefix, name)
    _put(client, folder, bucket, prefix, SUMS)  # after all that it names: a run that was stopped begins again
    for name in there.keys() - here.keys():
        if not name.startswith(MAPS):  # pages that were told of them may still ask; let the store expire them
            client.delete_object(Bucket=bucket, Key=prefix + name)
    return changed


def _put(client: Any, folder: Path, bucket: str, prefix: str, name: str) -> None:
    fixed, days = name.startswith(MAPS), name.startswith("api/days/")
    client.put_object(
        Bucket=bucket,
        Key=prefix + name,
        Body=(folder / name).read_bytes(),
        ContentType=TYPES.get(Path(name).suffix, "application/octet-stream"),
        CacheControl="public, max-age=31536000, immutable" if fixed else "public, max-age=60" if days else "no-cache",
    )


def _stored(client: Any, bucket: str, key: str) -> bytes:
    try:
        content: bytes = client.get_object(Bucket=bucket, Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        return b""
    return content


def _sums(text: bytes) -> dict[str, str]:
    lines = (line.split("  ", 1) for line in text.decode().splitlines())
    return {name: digest for digest, name in lines}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("target", help="s3://BUCKET/PREFIX")
    parser.add_argument("--every", type=float, help="Again and again, with so many seconds between.")
    asked = parser.parse_args()
    target = urlsplit(asked.target)
    if target.scheme != "s3" or not target.netloc:
        parser.error(f"{asked.target!r} is not like s3://bucket/prefix")
    prefix = f"{target.path.strip('/')}/".lstrip("/")
    client = boto3.client("s3")
    while True:
        try:
            changed = upload(client, asked.folder, target.netloc, prefix)
            print(f"{len(changed)} objects changed", flush=True)
        except Exception as error:
            if asked.every is None:
                raise
            print(f"tried again in {asked.every:g} s: {error}", file=sys.stderr, flush=True)
        if asked.every is None:
            return 0
        time.sleep(asked.every)


if __name__ == "__main__":
    sys.exit(main())
