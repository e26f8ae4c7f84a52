"""One file per noun: the rows of deployments, nodes, groups, cloud objects and what belongs to them."""
