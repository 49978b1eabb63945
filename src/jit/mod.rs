//! PTX → device code.
