"""The commands of the API, one file per noun. Importing this publishes all of them."""

from coterie.sandbox.fronts.cloudstack.commands import (  # noqa: F401 # importing a noun is what publishes its commands
    about,
    absent,
    addresses,
    affinity,
    destroy,
    hosts,
    jobs,
    keypairs,
    limits,
    machines,
    networks,
    offerings,
    power,
    security,
    snapshots,
    tags,
    templates,
    uploads,
    volume_changes,
    volumes,
)
