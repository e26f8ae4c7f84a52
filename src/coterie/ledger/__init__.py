"""The memory of everything: wishes, cloud objects, tasks, facts. The only room with SQL; it calls no cloud."""
