//! The way of the data, from bytes to a loaded module, in one function.
