"""kshadow: a shadow of Kafka's group coordinator. See DESIGN.md in this folder for the map."""

__version__ = "0.1.0"
