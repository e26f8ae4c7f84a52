"""A real OpenStack control plane on loopback, as the peer of tests: started by `python3 -m tests.peers.openstack up`.

Keystone, Placement, Glance, Neutron, Nova and Cinder are real, from Debian's packages. Stand-ins are
only nova's own fake hypervisor, an agent that reports ports as wired, and a volume backend that keeps no data.
Standard library only: it runs before anything of ours is installed.
"""
