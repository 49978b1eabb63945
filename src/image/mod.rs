//! What an application ships: PTX, cubin or fatbin, and which of them a device takes.
