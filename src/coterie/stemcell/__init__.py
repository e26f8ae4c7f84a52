"""Images on their way into a cloud that downloads them: a shelf of files, and the server that hands them out."""
