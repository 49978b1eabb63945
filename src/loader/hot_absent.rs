//! Hot kernels without the CPU device: there are none.

use super::compile::{Compiler, Request};
use super::{Loaded, Loader};
use crate::driver;

pub(super) type Text = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl Loader {
    pub(super) fn keep_hot_code(
        &self,
        _: &Loaded,
        _: &Request<'_>,
        _: usize,
        _: impl FnOnce() -> Text,
    ) -> Result<(), driver::Error> {
        Ok(())
    }
}

pub(super) fn copy_of(text: &str) -> Text {
    let copy = text.to_owned();
    Box::new(move || Some(copy.clone()))
}

pub(super) fn for_cache(_: &Compiler, code: Vec<u8>) -> Vec<u8> {
    code
}

pub(super) fn for_others<T>(_: &Compiler, code: &[u8], _: impl FnOnce() -> T) -> Vec<u8> {
    code.to_vec()
}
