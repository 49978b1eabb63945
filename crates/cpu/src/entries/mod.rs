//! The driver API of the CPU device: the same entries as NVIDIA's, with the same
//! meaning, in one table. An entry decodes its arguments and calls `state`.

#![allow(non_snake_case, clippy::too_many_arguments)] // the C API's own names and signatures

mod array;
mod batch;
mod capture;
mod context;
mod copy;
mod descriptor;
mod device;
mod entry;
mod event;
mod external;
mod function;
mod graph;
mod graph_add;
mod graph_exec;
mod graph_memory;
mod graph_node;
mod graph_query;
mod green;
mod init;
mod ipc;
mod launch;
mod library;
mod link;
mod log;
mod managed;
mod memory;
mod module;
mod opengl;
mod peer;
mod pointer;
mod pool;
mod process;
mod reference;
mod region;
mod stream;
mod tensor_map;
#[cfg(test)]
mod tests;
mod texture;
mod user_object;
mod value;
mod virtual_memory;

use std::sync::LazyLock;

use api::{Api, DriverKind};

/// The entries that the CPU device serves; the others are `None`.
///
/// ```
/// let api = ptxkit_cpu::table();
/// let mut count = 0;
/// // SAFETY: the results are written to variables of the types that the entries ask for.
/// unsafe {
///     api.cuInit(0)?;
///     api.cuDeviceGetCount(&mut count)?;
/// }
/// assert!(count >= 1);
/// # Ok::<(), api::Error>(())
/// ```
pub fn table() -> &'static Api {
    static TABLE: LazyLock<Api> = LazyLock::new(fill);
    &TABLE
}

fn fill() -> Api {
    let mut api = Api::empty(DriverKind::Cpu);
    init::serve(&mut api);
    device::serve(&mut api);
    context::serve(&mut api);
    green::serve(&mut api);
    stream::serve(&mut api);
    event::serve(&mut api);
    memory::serve(&mut api);
    pool::serve(&mut api);
    managed::serve(&mut api);
    copy::serve(&mut api);
    batch::serve(&mut api);
    region::serve(&mut api);
    array::serve(&mut api);
    texture::serve(&mut api);
    tensor_map::serve(&mut api);
    reference::serve(&mut api);
    pointer::serve(&mut api);
    module::serve(&mut api);
    function::serve(&mut api);
    link::serve(&mut api);
    library::serve(&mut api);
    launch::serve(&mut api);
    capture::serve(&mut api);
    graph::serve(&mut api);
    graph_add::serve(&mut api);
    graph_exec::serve(&mut api);
    graph_memory::serve(&mut api);
    graph_query::serve(&mut api);
    user_object::serve(&mut api);
    value::serve(&mut api);
    virtual_memory::serve(&mut api);
    peer::serve(&mut api);
    ipc::serve(&mut api);
    opengl::serve(&mut api);
    external::serve(&mut api);
    log::serve(&mut api);
    process::serve(&mut api);
    api
}
