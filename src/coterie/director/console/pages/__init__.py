"""The pages, one noun per file: each calls the API as its caller and hands the answers to a template."""
