"""Run by Alembic inside the transaction that `ledger.schema.upgrade` holds."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
