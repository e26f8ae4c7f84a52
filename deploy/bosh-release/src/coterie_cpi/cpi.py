"""What bin/cpi runs: CONFIG SOCKET answers the request on stdin; any other words are a verb of coterie-cpi."""

import sys

sys.path.insert(0, __file__.rpartition("/")[0] + "/site")
words = sys.argv[1:]
if len(words) == 2 and words[0].startswith("/"):
    from coterie.bosh.client.client import main

    main(words[0], words[1])
else:
    from coterie.bosh.commands import run

    sys.exit(run(words))
