"""Machinery that clouds share, as parts a driver composes. No vendor's word may enter; each part is usable alone."""
