//! Tensor maps, by which a multiprocessor copies boxes of tensors (the Tensor Memory Accelerator
//! of sm_90 and later).

pub(crate) mod element;
pub(crate) mod layout;
pub(crate) mod map;
pub(crate) mod view;
