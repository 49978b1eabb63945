//! The remote cache over a folder, and over a server that does wrong.
