"""What can go wrong in the store."""


class StoreError(Exception):
    """Root of the store's errors."""


class DatabaseNewer(StoreError):
    """The database was written by a newer version of the app."""

    def __init__(self, *, where: str, revision: str) -> None:
        self.where, self.revision = where, revision
        super().__init__(
            f"the database {where} is at revision {revision}, which this version does not know: it was written by a "
            "newer version; update the app, or use another home folder"
        )


class DatabaseBusy(StoreError):
    """Another process held the database for too long; nothing was written."""

    def __init__(self, *, where: str) -> None:
        self.where = where
        super().__init__(f"another process holds the database {where}; try again when it has finished")
