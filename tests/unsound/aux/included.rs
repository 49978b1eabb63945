//! A macro in a file of another folder.
macro_rules! included {
    () => {
        ptxkit::include_ptx!("included.ptx")
    };
}
