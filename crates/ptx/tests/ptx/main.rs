//! The reader, checker and printer on whole modules, on damaged ones and on bytes that are not PTX.

mod bounds;
mod format;
mod modules;
mod read;
mod slices;
