//! The handles of libraries and modules that are cut, by their values.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use api::CUcontext;

use super::Sliced;

/// A module that is cut.
pub struct SlicedModule {
    pub sliced: Arc<Sliced>,
    pub context: Address,
    /// The library that it is of; `None` for one that was loaded as a module.
    pub library: Option<Address>,
}

/// The value of a handle.
pub type Address = usize;

enum Ours {
    Library(Arc<Sliced>),
    Module(Arc<SlicedModule>),
}

#[derive(Default)]
struct Table {
    /// By the address of the place that was allocated for each.
    handles: BTreeMap<Address, (Ours, Box<u64>)>,
    /// The modules of libraries, by library and context.
    modules: BTreeMap<(Address, Address), Address>,
    /// The libraries of the driver's kernels.
    kernels: BTreeMap<Address, Address>,
    /// The modules of the driver's functions.
    functions: BTreeMap<Address, Address>,
}

static TABLE: RwLock<Table> = RwLock::new(Table {
    handles: BTreeMap::new(),
    modules: BTreeMap::new(),
    kernels: BTreeMap::new(),
    functions: BTreeMap::new(),
});

/// Whether anything was ever cut: other programs do not take the lock.
static IS_USED: AtomicBool = AtomicBool::new(false);

fn with<T>(read: impl FnOnce(&Table) -> Option<T>) -> Option<T> {
    if !IS_USED.load(Ordering::Acquire) {
        return None;
    }
    read(&TABLE.read().unwrap_or_else(PoisonError::into_inner))
}

fn change<T>(write: impl FnOnce(&mut Table) -> T) -> T {
    write(&mut TABLE.write().unwrap_or_else(PoisonError::into_inner))
}

impl Table {
    fn add(&mut self, ours: Ours) -> Address {
        // No handle of the driver's has the address of memory that is in use.
        let place = Box::new(0_u64);
        let address = std::ptr::from_ref(&*place).addr();
        self.handles.insert(address, (ours, place));
        IS_USED.store(true, Ordering::Release);
        address
    }
}

/// Adds a library, and returns its handle.
pub fn add_library(sliced: Sliced) -> *mut c_void {
    let library = Ours::Library(Arc::new(sliced));
    std::ptr::without_provenance_mut(change(|table| table.add(library)))
}

/// Adds a module that is loaded into a context, and returns its handle.
pub fn add_module(sliced: Sliced, context: CUcontext) -> *mut c_void {
    let module = Ours::Module(Arc::new(SlicedModule {
        sliced: Arc::new(sliced),
        context: context.addr(),
        library: None,
    }));
    std::ptr::without_provenance_mut(change(|table| table.add(module)))
}

/// The library with this handle.
pub fn library(handle: Address) -> Option<Arc<Sliced>> {
    with(|table| match &table.handles.get(&handle)?.0 {
        Ours::Library(sliced) => Some(Arc::clone(sliced)),
        Ours::Module(_) => None,
    })
}

/// The module with this handle.
pub fn module(handle: Address) -> Option<Arc<SlicedModule>> {
    with(|table| match &table.handles.get(&handle)?.0 {
        Ours::Module(module) => Some(Arc::clone(module)),
        Ours::Library(_) => None,
    })
}

/// The library that has a kernel of the driver's.
pub fn library_of_kernel(kernel: Address) -> Option<Address> {
    with(|table| table.kernels.get(&kernel).copied())
}

/// The module that has a function of the driver's.
pub fn module_of_function(function: Address) -> Option<Address> {
    with(|table| table.functions.get(&function).copied())
}

/// Notes that a kernel is of a library.
pub fn add_kernel(kernel: Address, library: Address) {
    change(|table| table.kernels.insert(kernel, library));
}

/// Notes that a function is of a module.
pub fn add_function(function: Address, module: Address) {
    change(|table| table.functions.insert(function, module));
}

/// The handle of a library's module in a context.
pub fn module_of_library(sliced: Arc<Sliced>, library: Address, context: Address) -> Address {
    change(|table| {
        if let Some(module) = table.modules.get(&(library, context)) {
            return *module;
        }
        let module = table.add(Ours::Module(Arc::new(SlicedModule {
            sliced,
            context,
            library: Some(library),
        })));
        table.modules.insert((library, context), module);
        module
    })
}

/// Ends the handle of a library or module, and of all that was found in it.
pub fn remove(handle: Address) {
    change(|table| {
        table.kernels.retain(|_, library| *library != handle);
        let mut removed = vec![handle];
        table.modules.retain(|(library, _), module| {
            if *library == handle {
                removed.push(*module);
            }
            *library != handle
        });
        table
            .functions
            .retain(|_, module| !removed.contains(module));
        for handle in removed {
            table.handles.remove(&handle);
        }
    });
}
