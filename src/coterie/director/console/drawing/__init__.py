"""Pictures as SVG text: the placement map and the time line of a task. Pure; without inline styles and scripts."""
