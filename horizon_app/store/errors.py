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
    """Others held the database for too long; nothing was written."""

    def __init__(self, *, where: str, waited_s: float) -> None:
        self.where, self.waited_s = where, waited_s
        super().__init__(
            f"others held the database {where} for more than {waited_s:g} s; try again when they have finished"
        )


class DatabaseDamaged(StoreError):
    """The file is not a database, or no longer a whole one."""

    def __init__(self, *, where: str, said: str) -> None:
        self.where, self.said = where, said
        super().__init__(
            f"the database {where} is damaged ({said}); move it away and put a backup in its place "
            "(`horizon db backup` makes them); the runs' folders keep their checkpoints and journals meanwhile"
        )


class DatabaseUnavailable(StoreError):
    """The database can't be opened, read or written now: no server, no right, no room."""

    def __init__(self, *, where: str, said: str) -> None:
        self.where, self.said = where, said
        first = said.strip().splitlines()[0] if said.strip() else "no reason given"
        super().__init__(f"the database {where} can't be used: {first}")


class BackupRefused(StoreError):
    """No backup was made; what lies at the target is as it was."""


class DatabaseUnusable(StoreError):
    """The setting names no database that this app can open."""

    def __init__(self, said: str) -> None:
        super().__init__(
            f"HORIZON_DATABASE_URL: {said}; write postgresql://USER@HOST/NAME, with the extra `postgresql` installed, "
            "or sqlite:////PATH, or leave it out for horizon.db in the home folder"
        )
