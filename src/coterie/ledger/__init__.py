"""The database: specs of deployments, cloud objects, tasks, facts. The only package with SQL; it calls no cloud."""
