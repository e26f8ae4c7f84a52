"""The exec driver: runs any foreign BOSH CPI program. What such a program cannot do is said, never guessed."""
