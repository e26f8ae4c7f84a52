"""Plans on the command line: asked for, shown, saved, confirmed."""
