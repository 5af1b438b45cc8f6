"""Draws the diagrams of the road and of a deployment: python docs/draw_diagrams.py writes docs/pictures/*.png."""

from itertools import pairwise
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

PICTURES = Path(__file__).parent / "pictures"
INK, SOFT, LINE = "#1c2733", "#5b6875", "#8a97a4"
PRIVATE, NOISY, STORE, PLAIN = "#f6d9d5", "#d6e6f5", "#efe6c8", "#eef1f4"
Place = tuple[float, float]


def box(ax: Axes, centre: Place, size: Place, title: str, text: str = "", colour: str = PLAIN) -> None:
    (x, y), (w, h) = centre, size
    shape = FancyBboxPatch(
        (x - w / 2, y - h / 2), w, h, boxstyle="round,pad=0,rounding_size=0.1", facecolor=colour, edgecolor=LINE
    )
    ax.add_patch(shape)
    shift = 0.13 * (1 + text.count("\n")) if text else 0.0
    ax.text(x, y + shift, title, ha="center", va="center", fontsize=10, weight="bold", color=INK)
    if text:
        ax.text(x, y - 0.17, text, ha="center", va="center", fontsize=8, color=SOFT, linespacing=1.25)


def arrow(ax: Axes, start: Place, end: Place, text: str = "", shift: Place = (0.0, 0.14), dashed: bool = False) -> None:
    style = {"arrowstyle": "-|>", "color": SOFT, "lw": 1.2, "ls": "--" if dashed else "-", "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", xy=end, xytext=start, arrowprops=style)
    if text:
        middle = (start[0] + end[0]) / 2 + shift[0], (start[1] + end[1]) / 2 + shift[1]
        ax.text(*middle, text, ha="center", va="center", fontsize=8, color=SOFT)


def canvas(width: float, height: float) -> Axes:
    figure, ax = plt.subplots(figsize=(width, height), dpi=110)
    figure.subplots_adjust(0, 0, 1, 1)
    ax.set(xlim=(0, width), ylim=(0, height))
    ax.axis("off")
    return ax


def save(name: str) -> None:
    plt.savefig(PICTURES / name, facecolor="white")
    plt.close("all")


def road() -> None:
    """What happens to a report, and where it stops being one."""
    ax = canvas(9.2, 5.2)
    steps = [
        (1.35, "read", "files, Kafka,\na growing folder"),
        (3.5, "parse", "checks, units, a keyed\nhash for the vehicle"),
        (5.65, "assign", "hexagon and slot"),
        (7.8, "by vehicle", "duplicates out, cap,\ncontributions added up"),
    ]
    for x, title, text in steps:
        box(ax, (x, 4.15), (1.85, 0.95), title, text, PRIVATE)
    for left, right in pairwise(steps):
        arrow(ax, (left[0] + 0.925, 4.15), (right[0] - 0.925, 4.15))
    arrow(ax, (7.8, 3.67), (7.8, 2.95), "no vehicle beyond here", (-1.0, 0.0))
    later = [
        (7.8, "by hexagon", "public plan, then all\nnoise in one vector", NOISY),
        (5.65, "record", "one transaction: debited,\nwritten once, for ever", NOISY),
        (3.5, "estimate", "values, intervals, status;\nwhat older days teach", NOISY),
        (1.35, "publish", "files, Kafka,\nmap and report", NOISY),
    ]
    for x, title, text, colour in later:
        box(ax, (x, 2.45), (1.85, 0.95), title, text, colour)
    for right, left in pairwise(later):
        arrow(ax, (right[0] - 0.925, 2.45), (left[0] + 0.925, 2.45))
    box(ax, (5.65, 0.85), (1.85, 0.85), "ledger", "account, plans, noisy\nintegers, debits", STORE)
    arrow(ax, (5.4, 1.97), (5.4, 1.29))
    arrow(ax, (5.9, 1.29), (5.9, 1.97))
    arrow(ax, (4.72, 0.95), (3.8, 1.97), "read back", (-0.45, -0.1))
    arrow(ax, (2.6, 3.67), (2.43, 1.28), dashed=True)
    box(ax, (8.25, 0.85), (1.5, 0.85), "heartbeat", "every slot of service,\nempty ones too")
    arrow(ax, (8.1, 1.29), (8.0, 1.97))
    box(ax, (1.75, 0.85), (2.4, 0.85), "dead letters", "refused rows: stage, reason\nand number, never the row")
    ax.text(
        0.35,
        4.95,
        "red: true positions and speeds   blue: noisy integers and what follows from them",
        fontsize=8,
        color=SOFT,
    )
    save("road.png")


def deployment() -> None:
    """Machines and servers of a stream, and who may see what."""
    ax = canvas(9.2, 5.4)
    box(ax, (1.3, 4.5), (1.9, 0.8), "feed", "agency's messages or\nhatstream collect", PRIVATE)
    box(ax, (1.3, 2.95), (1.9, 0.8), "Kafka", "topic of positions", PRIVATE)
    ax.add_patch(
        FancyBboxPatch(
            (3.05, 1.75), 3.1, 3.3, boxstyle="round,pad=0,rounding_size=0.1", facecolor="none", edgecolor=LINE, ls="--"
        )
    )
    ax.text(4.6, 4.87, "private network: they run what they are sent", ha="center", fontsize=8, color=SOFT)
    box(ax, (4.6, 4.3), (2.7, 0.7), "task manager", "and beside it a pool of workers", PRIVATE)
    box(ax, (4.6, 3.3), (2.7, 0.7), "Flink's job manager", "checkpoints, savepoints", PRIVATE)
    box(ax, (4.6, 2.3), (2.7, 0.7), "job server", "takes the job")
    box(ax, (7.85, 4.3), (2.1, 0.8), "PostgreSQL", "the ledger", STORE)
    box(ax, (7.65, 2.95), (1.7, 0.8), "output", "files, topic of rows", NOISY)
    box(ax, (4.6, 0.8), (2.7, 0.9), "hatstream stream", "specification, key, head;\nhealth lines, --metrics")
    box(ax, (1.3, 0.8), (1.9, 0.9), "Prometheus", "for the operator; Grafana")
    box(ax, (7.85, 0.8), (2.1, 0.9), "hatstream release", "by a timer: fills gaps\nfrom an archive, same ledger")
    arrow(ax, (1.3, 4.1), (1.3, 3.35))
    arrow(ax, (2.25, 3.2), (3.25, 4.1))
    arrow(ax, (4.6, 3.65), (4.6, 3.95))
    arrow(ax, (4.6, 1.25), (4.6, 1.95))
    arrow(ax, (4.6, 2.65), (4.6, 2.95))
    arrow(ax, (5.95, 4.35), (6.8, 4.35))
    arrow(ax, (5.95, 4.15), (6.8, 3.2))
    arrow(ax, (3.25, 0.8), (2.25, 0.8))
    arrow(ax, (7.4, 1.25), (7.4, 2.55))
    arrow(ax, (8.72, 1.25), (8.72, 3.9))
    ax.text(
        0.35,
        0.12,
        "red: the operator alone, it holds true positions   blue: public   yellow: the operator alone, but no vehicle",
        fontsize=8,
        color=SOFT,
    )
    save("deployment.png")


LANES = {
    "a speed": [
        ("a text or a number, in the feed's unit", "transforms/layouts/", PRIVATE),
        ("a column of floats", "transforms/records.py, RawBatch", PRIVATE),
        ("steps of a grid, within [0, U]", "transforms/observe/parse.py", PRIVATE),
        ("a sum and a number of reports", "transforms/count/tally.py", PRIVATE),
        ("weight x (speed - centre), clipped", "dpops/levels/bounded.py", PRIVATE),
        ("an integer of a group, with noise", "dpops/levels/bounded.py, dpops/noise/", NOISY),
        ("an entry of the ledger", "transforms/recorded/, transforms/ledger/", NOISY),
        ("posterior mean, km/h, and interval", "dpops/learning/", NOISY),
        ("a row", "transforms/sinks/rows.py", NOISY),
    ],
    "a vehicle's id": [
        ("text or numbers, one field or two", "transforms/layouts/", PRIVATE),
        ("one text", "transforms/observe/vehicle_ids.py", PRIVATE),
        ("63 bits of HMAC with the day", "transforms/observe/vehicle_ids.py", PRIVATE),
        ("the shard that counts it", "transforms/steps/observe.py", PRIVATE),
        ("a key of tallies, duplicates gone", "transforms/count/tally.py", PRIVATE),
        ("a number within one day's sums", "transforms/tasks.py, dpops/levels/bounded.py", PRIVATE),
        ("nothing: sums over vehicles", "dpops/levels/bounded.py, sum_up", PLAIN),
    ],
    "an epsilon": [
        ("a decimal in the specification", "pipelines/specification/document.py", PLAIN),
        ("a fraction of a span of days", "pipelines/specification/levels.py", PLAIN),
        ("a claim: pure epsilon, rho or mu", "dpops/claims.py, dpops/accountant.py", PLAIN),
        ("the spread of a stage's noise", "dpops/levels/defaults.py, spread_of", PLAIN),
        ("a plan with its claim", "dpops/levels/stages.py", PLAIN),
        ("asked of the account: does it fit?", "pipelines/runs/beam/judge.py", STORE),
        ("a debit, in the release's transaction", "transforms/ledger/ledger.py, record", STORE),
        ("the largest sum of any window", "transforms/ledger/spending.py", STORE),
        ("a sentence of card and report", "pipelines/account/guarantee.py", NOISY),
    ],
}


def walk() -> None:
    """The forms that a speed, a vehicle's id and an epsilon have, and the file in which each changes."""
    ax = canvas(9.2, 8.6)
    for column, (name, forms) in enumerate(LANES.items()):
        x = 1.6 + 3.0 * column
        ax.text(x, 8.3, name, ha="center", fontsize=12, weight="bold", color=INK)
        for row, (form, file, colour) in enumerate(forms):
            y = 7.75 - 0.88 * row
            box(ax, (x, y), (2.85, 0.62), "", "", colour)
            ax.text(x, y + 0.12, form, ha="center", va="center", fontsize=8.5, weight="bold", color=INK)
            ax.text(x, y - 0.14, file, ha="center", va="center", fontsize=7, color=SOFT)
            if row:
                arrow(ax, (x, y + 0.57), (x, y + 0.31))
    ax.text(
        0.2, 0.12, "red: private   blue: noisy, or what follows from it   yellow: the ledger", fontsize=8, color=SOFT
    )
    save("walk.png")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    road()
    deployment()
    walk()


if __name__ == "__main__":
    main()
