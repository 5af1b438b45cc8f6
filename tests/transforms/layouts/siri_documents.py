"""SIRI-VM documents for tests."""

from xml.sax.saxutils import escape


def activity(row, *, prefix="", extra=""):
    """A vehicle's activity; what is None in the row is left out."""

    def element(name, inner):
        return "" if inner is None else f"<{prefix}{name}>{inner}</{prefix}{name}>"

    where = element("Longitude", row.get("lon")) + element("Latitude", row.get("lat"))
    vehicle = None if row.get("vehicle") is None else escape(str(row["vehicle"]))
    journey = (
        element("LineRef", "4")
        + element("VehicleLocation", where)
        + element("Bearing", row.get("heading"))
        + element("Velocity", row.get("speed"))
        + element("VehicleRef", vehicle)
    )
    inner = element("RecordedAtTime", row.get("time")) + element("MonitoredVehicleJourney", journey) + extra
    return element("VehicleActivity", inner)


def document(activities, *, prefix="", head='<?xml version="1.0" encoding="UTF-8"?>'):
    name = f"xmlns:{prefix[:-1]}" if prefix else "xmlns"
    inner = f"<{prefix}VehicleMonitoringDelivery>{''.join(activities)}</{prefix}VehicleMonitoringDelivery>"
    around = f"<{prefix}ServiceDelivery>{inner}</{prefix}ServiceDelivery>"
    return f'{head}<{prefix}Siri {name}="http://www.siri.org.uk/siri" version="2.0">{around}</{prefix}Siri>'.encode()
