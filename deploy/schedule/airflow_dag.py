"""An Airflow 2 DAG that releases each day once it is over. Copy it into the folder of DAGs. Exit codes: README.md."""

import subprocess
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from airflow.decorators import dag, task
from airflow.exceptions import AirflowFailException

HATSTREAM = "/opt/hatstream/.venv/bin/hatstream"
HOME = "/srv/hatstream"
ZONE = ZoneInfo("America/Chicago")  # the account's

DONE, WRONG_USE, BAD_SPECIFICATION, REFUSED, FAILED, DIFFERS = 0, 1, 2, 3, 4, 5
NO_USE_TO_TRY_AGAIN = (WRONG_USE, BAD_SPECIFICATION, REFUSED)


@dag(
    schedule="30 4 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=ZONE),
    catchup=True,  # a day that is released already is published again and costs nothing
    max_active_runs=1,
    default_args={"retries": 4, "retry_delay": timedelta(minutes=15)},
)
def hatstream_release():
    @task
    def release(data_interval_start=None):
        day = data_interval_start.astimezone(ZONE).date().isoformat()
        command = [HATSTREAM, "release", "--spec", "town.toml", "--key", "town.key", "--input", f"feed/{day}*.csv"]
        command += ["--from", day, "--to", day, "--unattended", "--output", "out", "--quiet", "--json"]
        code = subprocess.run(command, cwd=HOME, check=False).returncode
        if code in NO_USE_TO_TRY_AGAIN:
            raise AirflowFailException(f"hatstream release ended with {code}: trying again will not mend it")
        if code not in (DONE, DIFFERS):
            raise RuntimeError(f"hatstream release ended with {code}: it is tried again")
        if code == DIFFERS:
            print("input or code differs from what was released before; that stands")

    release()


hatstream_release()
