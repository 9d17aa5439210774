"""The checklist of the machine: versions, processor, memory, limits, disk, database, port. Leaves nothing behind."""
