//! What the two programs share.
