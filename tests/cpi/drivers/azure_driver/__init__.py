"""Not named `azure`: that is the package of the vendor's libraries, which a package of tests would hide."""
