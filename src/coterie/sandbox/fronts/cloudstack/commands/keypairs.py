"""SSH keypairs. Name and public key are unique in an account. A created pair's private half is no real key: nothing
here could be entered with it."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator

from coterie.sandbox.fronts.cloudstack import shelf
from coterie.sandbox.fronts.cloudstack.call import Call
from coterie.sandbox.fronts.cloudstack.command_table import answers
from coterie.sandbox.fronts.cloudstack.listing import Row, filter_rows, rows_of_accounts
from coterie.sandbox.fronts.cloudstack.places import owner_words
from coterie.sandbox.fronts.cloudstack.refusals import refuse
from coterie.sandbox.fronts.cloudstack.shelf import Thing


@answers("registerSSHKeyPair", writes=True)
def register(call: Call) -> Row:
    words = str(call.params["publickey"]).split()
    if len(words) < 2:
        raise refuse("Public key is invalid")
    return _row(_add(call, " ".join(words[:2])))


@answers("createSSHKeyPair", writes=True)
def create(call: Call) -> Row:
    made = _add(call, f"ssh-rsa {base64.b64encode(secrets.token_bytes(64)).decode()}")
    body = base64.b64encode(secrets.token_bytes(96)).decode()
    return {**_row(made), "privatekey": f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"}


@answers("deleteSSHKeyPair", writes=True)
def delete(call: Call) -> None:
    found = next(shelf.every(call.tx.db, "keypair", call.tx.account, call.params["name"]), None)
    if found is None:
        raise refuse(f"A key pair with name '{call.params['name']}' does not exist for account {call.tx.account}")
    shelf.bury(call.tx, found.id)


@answers("listSSHKeyPairs")
def list_pairs(call: Call) -> Iterator[Row]:
    rows = rows_of_accounts(call, lambda tx: map(_row, shelf.every(tx.db, "keypair", tx.account)))
    return filter_rows(call, rows, "id", "name", "fingerprint")


def _add(call: Call, public_key: str) -> Thing:
    for known in shelf.every(call.tx.db, "keypair", call.tx.account):
        if known.name == call.params["name"]:
            raise refuse(f"A key pair with name '{known.name}' already exists.")
        if known.doc["public"] == public_key:
            raise refuse(f"A key pair with public key '{public_key}' already exists for account {call.tx.account}")
    return shelf.put(call.tx, "keypair", call.params["name"], {"public": public_key})


def _row(thing: Thing) -> Row:
    digest = hashlib.md5(thing.doc["public"].encode(), usedforsecurity=False).hexdigest()
    fingerprint = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
    return {"id": thing.id, "name": thing.name, "fingerprint": fingerprint, **owner_words(thing.account)}
