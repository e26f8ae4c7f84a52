"""run PROGRAM MODULE:FUNCTION [ARGUMENTS]: a console entry point, without its package's script."""

import importlib
import sys

name, target = sys.argv[1:3]
sys.argv = [name, *sys.argv[3:]]
module, function = target.split(":")
sys.exit(getattr(importlib.import_module(module), function)())
