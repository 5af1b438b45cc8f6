"""The specification of a fusion of what several services were told about the same vehicles."""

SERVICES = {
    "maps": 'mechanism = "pm", epsilon = 0.5',
    "traffic": 'mechanism = "laplace", epsilon = 1',
    "weather": 'mechanism = "sw", epsilon = 2',
}


def spec(
    name: str = "three services",
    services: dict[str, str] = SERVICES,
    *,
    layout: str = "csv",
    zone: str = "America/Chicago",
    by_cell: bool = False,
) -> str:
    """services: what each is told by, by name. by_cell: whether reports name cells, and are fused by them."""
    asked = "".join(f'  {{ name = "{service}", {told} }},\n' for service, told in services.items())
    cells, column = ("cells = { resolution = 7 }\n", 'cell = "cell"\n') if by_cell else ("", "")
    return f"""
name = "{name}"
upper_kmh = 65
slot = {{ minutes = 60, timezone = "{zone}" }}
service = [
{asked}]
{cells}fusion = {{ buckets = 16 }}
[input]
layout = "{layout}"
[input.columns]
user = "user"
service = "service"
epsilon = "epsilon"
mechanism = "mechanism"
time = "time"
{column}report = "report"
[telemetry]
layout = "csv"
columns = {{ vehicle = "bus", time = "ts", lat = "lat", lon = "lon", speed = "v" }}
"""
