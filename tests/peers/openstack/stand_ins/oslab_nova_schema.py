"""Nova's databases and its one cell, in one process: four times nova-manage would import Nova four times."""

import sys

from nova import config, objects
from nova.cmd import manage

ALREADY = 2  # the cell is there
config.parse_args(["nova-manage", "--config-file", sys.argv[1]])
objects.register_all()
database = "{scheme}://{username}@{hostname}/%s?{query}"
cells = manage.CellV2Commands()
done = [
    manage.ApiDbCommands().sync() or 0,
    cells.map_cell0(database_connection=database % "nova_cell0") or 0,
    manage.DbCommands().sync() or 0,
]
made = cells.create_cell(
    name="cell1",
    database_connection=database % "nova",
    transport_url="{scheme}://{username}:{password}@{hostname}:{port}/",
)
sys.exit(any(done) or made not in (0, ALREADY))
