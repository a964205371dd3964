"""Base of dictionaries and arrays."""


class DObject:
    """A named object of a container."""

    def __init__(self, name, handle, cont):
        """Keep the name, Esker's own handle, and the container."""
        self.name, self.oh, self.cont = name, handle, cont
        self.hi, self.lo = (int(part) for part in handle.oid.split("."))

    def __str__(self):
        return self.name

    def __repr__(self):
        return f"[{self.hi:#x}:{self.lo:#x}]"
